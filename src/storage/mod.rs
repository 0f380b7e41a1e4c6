//! Where files stand (placeholder until the room is merged).
pub(crate) mod cause;
use std::collections::BTreeMap;
use std::sync::Arc;
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) store: Arc<dyn object_store::ObjectStore>,
    pub(crate) prefix: object_store::path::Path,
    pub(crate) shown: String,
    pub(crate) redactor: crate::secret::Redactor,
}
#[derive(Clone, Debug)]
pub(crate) struct HdfsOptions {
    pub(crate) url: String,
    pub(crate) dir: String,
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) principal: Option<String>,
    pub(crate) keytab: Option<String>,
    pub(crate) shown: String,
}
impl Objects {
    pub(crate) fn of(store: Arc<dyn object_store::ObjectStore>, prefix: &str, shown: &str) -> Self {
        Self { store, prefix: prefix.into(), shown: shown.into(), redactor: crate::secret::Redactor::default() }
    }
}

//! Opens HDFS: name services, the default file system, the mount tables of `viewfs:`, Kerberos.

use std::collections::BTreeMap;

use super::location::{self, Kind, Location, Remote};
use super::settings::Settings;
use super::{HdfsOptions, Problems, client};

const PORT: u16 = 8020;
const NAMENODES: &str = "dfs.ha.namenodes.";
const ADDRESS: &str = "dfs.namenode.rpc-address.";

/// What a run waits for a name node, unless the properties say otherwise: the client's own defaults are minutes.
const DEFAULTS: [(&str, &str); 2] = [("dfs.client.failover.max.attempts", "4"), ("dfs.client.socket-timeout", "10000")];
/// Times that the client reads as a plain number only, and takes its own default for anything else.
const TIMES: [&str; 3] =
    ["dfs.client.socket-timeout", "dfs.client.failover.sleep.base.millis", "dfs.client.failover.sleep.max.millis"];

/// Works out the options of the client.
pub(super) fn open(remote: &Remote, settings: &Settings) -> Result<HdfsOptions, Vec<String>> {
    let mut problems = Problems::default();
    let authority = match remote.authority() {
        "" => default_fs(settings, Kind::Hdfs).map_err(|said| problems.add(said)).ok(),
        host => Some(host.to_owned()),
    };
    let host = authority.and_then(|authority| name_node(&mut problems, &authority, settings));
    if remote.path().contains(':') {
        problems.add("HDFS has no names with a colon");
    }
    let config = config(&mut problems, settings);
    let (principal, keytab) = kerberos(&mut problems, settings);
    let options = host.map(|host| {
        let (url, dir) = (format!("hdfs://{host}"), remote.path().to_owned());
        HdfsOptions { url, dir, config, principal, keytab }
    });
    problems.or(options)
}

/// The authority of `fs.defaultFS`, which must be of this kind.
fn default_fs(settings: &Settings, kind: Kind) -> Result<String, String> {
    let scheme = if kind == Kind::Hdfs { "hdfs" } else { "viewfs" };
    let found = ["fs.defaultFS", "fs.default.name"].into_iter().find_map(|n| Some((n, settings.property(n)?)));
    let Some((name, text)) = found else {
        return Err(format!(
            "names no host: write {scheme}://host/directory, or set fs.defaultFS in the hadoop block or HADOOP_CONF_DIR"
        ));
    };
    match location::parse(text) {
        Ok(Location::Remote(remote)) if remote.kind() == kind && !remote.authority().is_empty() => {
            Ok(remote.authority().to_owned())
        }
        Ok(_) => Err(format!("names no host, and {name} is no {scheme}://host")),
        Err(said) => Err(format!("{name}: {said}")),
    }
}

/// A name service as it is, or a host with its port: the client takes a host without one for a name service.
fn name_node(problems: &mut Problems, authority: &str, settings: &Settings) -> Option<String> {
    let namenodes = format!("{NAMENODES}{authority}");
    if settings.properties().contains_key(&namenodes) {
        let ids = ids(settings.property(&namenodes).unwrap_or_default());
        if ids.is_empty() {
            problems.add(format!("{namenodes}: names no name node"));
        }
        let addresses: Vec<String> = ids.iter().map(|id| format!("{ADDRESS}{authority}.{id}")).collect();
        for missing in addresses.iter().filter(|name| settings.property(name).is_none()) {
            problems.add(format!("{missing}: required, since {namenodes} names it"));
        }
        return Some(authority.to_owned());
    }
    // A name service of one name node.
    let one = format!("{ADDRESS}{authority}");
    match settings.property(&one) {
        Some(address) => Some(with_port(address)),
        None if ids(settings.property("dfs.nameservices").unwrap_or_default()).contains(&authority) => {
            problems.add(format!("{namenodes} or {one}: required, since dfs.nameservices names {authority}"));
            None
        }
        None => Some(with_port(authority)),
    }
}

fn ids(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|id| !id.is_empty()).collect()
}

fn with_port(address: &str) -> String {
    let after = address.rsplit_once(']').map_or(address, |(_, after)| after);
    if after.contains(':') { address.to_owned() } else { format!("{address}:{PORT}") }
}

/// All properties, with what the client would misread written plainly.
fn config(problems: &mut Problems, settings: &Settings) -> BTreeMap<String, String> {
    let mut config = settings.properties().clone();
    // An observer may not have seen yet what another committer did.
    config.retain(|name, _| !name.starts_with("dfs.client.failover.proxy.provider"));
    for (name, value) in &mut config {
        if name.starts_with(NAMENODES) {
            *value = ids(value).join(",");
        } else if name.starts_with(ADDRESS) && !value.trim().is_empty() {
            *value = with_port(value.trim());
        } else if TIMES.contains(&name.as_str()) && value.trim() != "0" {
            // Nothing at all means no limit there; the caller has its own.
            if let Some(time) = problems.take(name, client::time(value.trim())) {
                *value = time.as_millis().to_string();
            }
        }
    }
    for (name, value) in DEFAULTS {
        config.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    config
}

/// Principal and key file; without them the client takes the ticket cache.
fn kerberos(problems: &mut Problems, settings: &Settings) -> (Option<String>, Option<String>) {
    let authentication = "hadoop.security.authentication";
    if let Some(kind) = settings.property(authentication)
        && !matches!(kind, "simple" | "kerberos")
    {
        problems.add(format!("{authentication}: expected simple or kerberos, not {kind:?}"));
    }
    let (principal_name, keytab_name) = ("dfs.client.kerberos.principal", "dfs.client.keytab.file");
    let get = |name: &str| settings.property(name).map(str::to_owned);
    let (principal, keytab) = (get(principal_name), get(keytab_name));
    if let Some(file) = &keytab {
        if principal.is_none() {
            problems.add(format!("{keytab_name} is set without {principal_name}"));
        }
        if let Err(e) = std::fs::File::open(file) {
            problems.add(format!("{keytab_name}: cannot read {file}: {e}"));
        }
    }
    (principal, keytab)
}

/// What a path of `viewfs:` stands for: the target of the longest mount above it.
///
/// Done here because the client wants a fallback in every mount table, and knows no other stores behind it.
pub(super) fn resolve(remote: &Remote, settings: &Settings) -> Result<Location, Vec<String>> {
    let one = |said: String| vec![said];
    let cluster = match remote.authority() {
        "" => default_fs(settings, Kind::Viewfs).or_else(|said| {
            // Hadoop's own name of the table that is meant when nothing names one.
            if mounts(settings, "default").is_empty() { Err(said) } else { Ok("default".to_owned()) }
        }),
        cluster => Ok(cluster.to_owned()),
    };
    let cluster = cluster.map_err(one)?;
    let mounts = mounts(settings, &cluster);
    if mounts.is_empty() {
        return Err(one(format!(
            "there is no mount table of {cluster:?}: set fs.viewfs.mounttable.{cluster}.link./directory"
        )));
    }
    let above = |mount: &str| {
        let rest = remote.path().strip_prefix(mount.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_owned())
    };
    let found = mounts.iter().filter_map(|mount| Some((mount, above(&mount.path)?)));
    let Some((mount, rest)) = found.max_by_key(|(mount, _)| mount.path.len()) else {
        return Err(one(format!("no mount of {cluster:?} holds {}", remote.path())));
    };
    let target = format!("{}/{rest}", mount.target.trim_end_matches('/'));
    match location::parse(&target) {
        Ok(Location::Remote(target)) if target.kind() != Kind::Viewfs => Ok(Location::Remote(target)),
        Ok(Location::Remote(_)) => Err(one(format!("{}: leads to another mount table", mount.name))),
        Ok(Location::Local(dir)) if dir.is_absolute() => Ok(Location::Local(dir)),
        Ok(Location::Local(_)) => Err(one(format!("{}: must be a URL", mount.name))),
        Err(said) => Err(one(format!("{}: {said}", mount.name))),
    }
}

/// One line of a mount table.
struct Mount {
    name: String,
    path: String,
    target: String,
}

fn mounts(settings: &Settings, cluster: &str) -> Vec<Mount> {
    let table = format!("fs.viewfs.mounttable.{cluster}.");
    let lines = settings.properties().iter().filter_map(|(name, target)| {
        let path = match name.strip_prefix(&table)? {
            "linkFallback" | "linkMergeSlash" => "/",
            link => link.strip_prefix("link.").filter(|path| path.starts_with('/'))?,
        };
        Some(Mount { name: name.clone(), path: path.to_owned(), target: target.trim().to_owned() })
    });
    lines.collect()
}

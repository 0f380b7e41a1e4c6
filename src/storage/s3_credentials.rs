//! Which credentials an S3 store is opened with: properties, then variables, then a profile, then the machine's.

use super::profile::{self, Profile};
use super::s3::Bucket;
use super::settings::Settings;
use crate::secret::Secret;

/// What signs requests.
#[derive(PartialEq, Eq)]
pub(super) enum Credentials {
    Keys { id: String, secret: String, token: Option<String> },
    Anonymous,
    WebIdentity { token_file: String, role: String, session: Option<String> },
    ContainerRelative(String),
    ContainerFull { uri: String, token_file: String },
    Instance,
}

impl Credentials {
    /// The values that no message may show.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        match self {
            Self::Keys { id, secret, token } => {
                [Some(id), Some(secret), token.as_ref()].into_iter().flatten().map(Secret::new).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// One place where credentials may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Keys, with a session token if there is one.
    Properties,
    /// Keys without a session token.
    Simple,
    /// Keys with a session token.
    Temporary,
    Environment,
    WebIdentity,
    Container,
    Profile,
    Instance,
    Anonymous,
}

const DEFAULT: [Place; 6] =
    [Place::Properties, Place::Environment, Place::WebIdentity, Place::Container, Place::Profile, Place::Instance];

/// The classes of `aws.credentials.provider`, of Hadoop and of both AWS libraries, by their last word.
const CLASSES: [(&str, &[Place]); 17] = [
    ("SimpleAWSCredentialsProvider", &[Place::Simple]),
    ("TemporaryAWSCredentialsProvider", &[Place::Temporary]),
    ("AnonymousAWSCredentialsProvider", &[Place::Anonymous]),
    ("AnonymousCredentialsProvider", &[Place::Anonymous]),
    ("EnvironmentVariableCredentialsProvider", &[Place::Environment]),
    ("InstanceProfileCredentialsProvider", &[Place::Instance]),
    ("IAMInstanceCredentialsProvider", &[Place::Container, Place::Instance]),
    ("EC2ContainerCredentialsProviderWrapper", &[Place::Container, Place::Instance]),
    ("ContainerCredentialsProvider", &[Place::Container]),
    ("WebIdentityTokenCredentialsProvider", &[Place::WebIdentity]),
    ("WebIdentityTokenFileCredentialsProvider", &[Place::WebIdentity]),
    ("ProfileCredentialsProvider", &[Place::Profile]),
    ("ProfileAWSCredentialsProvider", &[Place::Profile]),
    ("DefaultCredentialsProvider", &FROM_OUTSIDE),
    ("DefaultAWSCredentialsProviderChain", &FROM_OUTSIDE),
    ("SharedInstanceCredentialProvider", &[Place::Container, Place::Instance]),
    ("SharedInstanceProfileCredentialsProvider", &[Place::Instance]),
];

const FROM_OUTSIDE: [Place; 5] =
    [Place::Environment, Place::WebIdentity, Place::Container, Place::Profile, Place::Instance];

const WHAT_TO_SET: &str = "fs.s3a.access.key and fs.s3a.secret.key in the hadoop block, AWS_ACCESS_KEY_ID and \
                           AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or for a public bucket fs.s3a.aws.credentials.provider \
                           = AnonymousAWSCredentialsProvider";

/// The first credentials there are.
pub(super) fn choose(bucket: &Bucket<'_>, settings: &Settings) -> Result<Credentials, Vec<String>> {
    let chosen = bucket.find(&["aws.credentials.provider"]);
    let places = match &chosen {
        None => DEFAULT.to_vec(),
        Some((name, classes)) => {
            places(classes).map_err(|all| all.into_iter().map(|said| format!("{name}: {said}")).collect::<Vec<_>>())?
        }
    };
    for place in &places {
        match at(*place, bucket, settings) {
            Ok(Some(credentials)) => return Ok(credentials),
            Ok(None) => {}
            Err(said) => return Err(vec![said]),
        }
    }
    let name = chosen.map_or("aws.credentials.provider".to_owned(), |(name, _)| name);
    let said = format!("none of the classes of {name} finds a credential; set {WHAT_TO_SET}");
    Err(vec![settings.credential_provider().unwrap_or(said)])
}

fn places(classes: &str) -> Result<Vec<Place>, Vec<String>> {
    let (mut places, mut problems) = (Vec::new(), Vec::new());
    for class in classes.split(|c: char| c == ',' || c.is_whitespace()).filter(|class| !class.is_empty()) {
        let short = class.rsplit(['.', '$']).next().unwrap_or(class);
        if let Some((_, found)) = CLASSES.iter().find(|(name, _)| *name == short) {
            places.extend_from_slice(found);
        } else {
            let known: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
            problems.push(format!("{short} is not supported; supported: {}", known.join(", ")));
        }
    }
    if problems.is_empty() { Ok(places) } else { Err(problems) }
}

fn at(place: Place, bucket: &Bucket<'_>, settings: &Settings) -> Result<Option<Credentials>, String> {
    let var = |name: &str| settings.var(name).map(str::to_owned);
    match place {
        Place::Properties | Place::Simple | Place::Temporary => properties(place, bucket),
        Place::Anonymous => Ok(Some(Credentials::Anonymous)),
        Place::Environment if settings.flag_var("AWS_SKIP_SIGNATURE") => Ok(Some(Credentials::Anonymous)),
        Place::Environment => {
            let token = var("AWS_SESSION_TOKEN");
            let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
            keys((id, var(id)), (secret, var(secret)), token)
        }
        Place::WebIdentity => {
            let (file, role) = (var("AWS_WEB_IDENTITY_TOKEN_FILE"), var("AWS_ROLE_ARN"));
            let Some((token_file, role)) = file.zip(role) else { return Ok(None) };
            readable("AWS_WEB_IDENTITY_TOKEN_FILE", &token_file)?;
            Ok(Some(Credentials::WebIdentity { token_file, role, session: var("AWS_ROLE_SESSION_NAME") }))
        }
        Place::Container => {
            if let Some(uri) = var("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
                return Ok(Some(Credentials::ContainerRelative(uri)));
            }
            let Some(uri) = var("AWS_CONTAINER_CREDENTIALS_FULL_URI") else { return Ok(None) };
            let Some(token_file) = var("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") else {
                return Err("AWS_CONTAINER_CREDENTIALS_FULL_URI needs AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE".into());
            };
            readable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token_file)?;
            Ok(Some(Credentials::ContainerFull { uri, token_file }))
        }
        Place::Profile => profile::read(settings)?.map_or(Ok(None), |profile| of_profile(&profile)),
        Place::Instance => match settings.credential_provider() {
            Some(said) => Err(said),
            None if settings.flag_var("AWS_EC2_METADATA_DISABLED") => {
                Err(format!("no credential is found, and AWS_EC2_METADATA_DISABLED is set; set {WHAT_TO_SET}"))
            }
            None => Ok(Some(Credentials::Instance)),
        },
    }
}

/// The keys of the first layer that has one: those of a bucket never mix with those of all buckets.
fn properties(place: Place, bucket: &Bucket<'_>) -> Result<Option<Credentials>, String> {
    for layer in bucket.layers() {
        let get =
            |names: &[&str]| names.iter().find_map(|name| bucket.at(&layer, name)).map(|(_, value)| value.to_owned());
        let id = get(&["access.key", "awsAccessKeyId"]);
        let secret = get(&["secret.key", "awsSecretAccessKey"]);
        let token = get(&["session.token"]).filter(|_| place != Place::Simple);
        let (id_name, secret_name) = (format!("{layer}access.key"), format!("{layer}secret.key"));
        let found = keys((&id_name, id), (&secret_name, secret), token)?;
        let is_temporary = matches!(&found, Some(Credentials::Keys { token: Some(_), .. }));
        if found.is_some() && (place != Place::Temporary || is_temporary) {
            return Ok(found);
        }
    }
    Ok(None)
}

fn of_profile(profile: &Profile) -> Result<Option<Credentials>, String> {
    let get = |key: &str| profile.get(key).map(str::to_owned);
    let names = ["aws_access_key_id", "aws_secret_access_key"].map(|key| format!("{key} of profile {}", profile.name));
    let id = (names[0].as_str(), get("aws_access_key_id"));
    let found = keys(id, (&names[1], get("aws_secret_access_key")), get("aws_session_token"))?;
    match profile.unsupported() {
        Some(key) if found.is_none() => Err(format!(
            "profile {} of the AWS files has {key}, which is not supported; set {WHAT_TO_SET}",
            profile.name
        )),
        _ => Ok(found),
    }
}

/// A pair of keys: both or none.
fn keys(
    (id_name, id): (&str, Option<String>),
    (secret_name, secret): (&str, Option<String>),
    token: Option<String>,
) -> Result<Option<Credentials>, String> {
    match (id, secret) {
        (Some(id), Some(secret)) => Ok(Some(Credentials::Keys { id, secret, token })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(format!("{id_name} is set without {secret_name}")),
        (None, Some(_)) => Err(format!("{secret_name} is set without {id_name}")),
    }
}

fn readable(name: &str, path: &str) -> Result<(), String> {
    std::fs::File::open(path).map(drop).map_err(|e| format!("{name}: cannot read {path}: {e}"))
}

//! S3: which bucket, where, with whose keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

const KEYS: [(&str, &str); 2] = [("fs.s3a.access.key", "AKIDxxxx"), ("fs.s3a.secret.key", "S3CR3T-p")];
const ENV: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AKIDeeee"), ("AWS_SECRET_ACCESS_KEY", "S3CR3T-e")];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    KEYS.iter().chain(more).copied().collect()
}

#[test]
fn r09_a_bucket_of_aws_is_in_its_region() {
    let (objects, inside) = objects("s3a://my_bucket/a/b/", &KEYS, &[]);
    assert_eq!(objects.prefix.as_ref(), "a/b");
    has(&inside, &["https://s3.us-east-1.amazonaws.com/my_bucket", "ETagMatch", "AKIDxxxx", "skip_signature: false"]);
    for (more, env, url) in [
        (("fs.s3a.endpoint.region", "eu-west-1"), ("AWS_REGION", "x-y"), "https://s3.eu-west-1.amazonaws.com/b\""),
        (("fs.s3a.x", "x"), ("AWS_REGION", "eu-west-2"), "https://s3.eu-west-2.amazonaws.com/b\""),
        (("fs.s3a.x", "x"), ("AWS_DEFAULT_REGION", "eu-west-3"), "https://s3.eu-west-3.amazonaws.com/b\""),
        (("fs.s3a.endpoint.region", "cn-north-1"), ("X", "x"), "https://s3.cn-north-1.amazonaws.com.cn/b\""),
        (("fs.s3a.path.style.access", "false"), ("X", "x"), "\"https://b.s3.us-east-1.amazonaws.com\""),
    ] {
        has(&super::inside("s3a://b/x", &with(&[more]), &[env]), &[url]);
    }
    refuses("s3a://b/x", &with(&[("fs.s3a.endpoint.region", "a.b/c")]), &[], &["region"]);
}

#[test]
fn r09_the_host_of_an_aws_endpoint_names_the_region() {
    for (endpoint, region, url) in [
        ("s3.eu-west-1.amazonaws.com", "eu-west-1", "https://s3.eu-west-1.amazonaws.com/b"),
        ("s3-us-west-2.amazonaws.com", "us-west-2", "https://s3-us-west-2.amazonaws.com/b"),
        (
            "https://s3.dualstack.ap-south-1.amazonaws.com",
            "ap-south-1",
            "https://s3.dualstack.ap-south-1.amazonaws.com/b",
        ),
        ("bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com", "eu-west-1", "https://bucket.vpce-1.s3.eu-west-1.vpce"),
        ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn/b"),
        ("s3.amazonaws.com", "us-east-9", "https://s3.us-east-9.amazonaws.com/b"),
        ("minio:9000", "us-east-9", "https://minio:9000/b"),
    ] {
        let properties = with(&[("fs.s3a.endpoint", endpoint)]);
        let inside = inside("s3a://b/x", &properties, &[("AWS_REGION", "us-east-9")]);
        has(&inside, &[&format!("region: \"{region}\""), url]);
    }
}

#[test]
fn r09_an_endpoint_of_ones_own() {
    for (more, url, http) in [
        (vec![("fs.s3a.endpoint", "http://h:9000/")], "\"http://h:9000/b\"", "true"),
        (
            vec![("fs.s3a.endpoint", "h:9000"), ("fs.s3a.connection.ssl.enabled", "false")],
            "\"http://h:9000/b\"",
            "true",
        ),
        (vec![("fs.s3a.endpoint", "h:9000")], "\"https://h:9000/b\"", "false"),
        (vec![("fs.s3a.endpoint", "h"), ("fs.s3a.path.style.access", "false")], "\"https://b.h\"", "false"),
        (vec![("fs.s3a.endpoint", "b.h"), ("fs.s3a.path.style.access", "false")], "\"https://b.h\"", "false"),
        (vec![("fs.s3a.endpoint", "h"), ("fs.s3a.path.style.access", "true")], "\"https://h/b\"", "false"),
    ] {
        has(&inside("s3a://b/x", &with(&more), &[]), &[url, &format!("allow_http: Parsed({http})")]);
    }
    let env = [("AWS_ENDPOINT_URL", "http://e:1"), ("AWS_ENDPOINT_URL_S3", "http://s:1")];
    has(&inside("s3a://b/x", &KEYS, &env), &["http://s:1/b"]);
    let virtual_ip = [("fs.s3a.endpoint", "http://127.0.0.1:9000"), ("fs.s3a.path.style.access", "false")];
    refuses("s3a://b/x", &with(&virtual_ip), &[], &["host name"]);
    refuses("s3a://b/x", &with(&[("fs.s3a.endpoint", "http://u:S3CR3T@h")]), &[], &["fs.s3a.endpoint", "user"]);
}

#[test]
fn r09_properties_of_a_bucket_and_of_the_written_scheme_come_first() {
    let properties = [
        ("fs.s3a.endpoint", "http://general"),
        ("fs.s3a.bucket.b.endpoint", "http://own"),
        ("fs.s3.endpoint", "http://s3"),
        ("fs.s3.bucket.c.endpoint", "http://s3own"),
        ("fs.s3n.awsAccessKeyId", "AKIDnnnn"),
        ("fs.s3n.awsSecretAccessKey", "S3CR3T-n"),
        ("fs.s3a.access.key", "AKIDxxxx"),
        ("fs.s3a.secret.key", "S3CR3T-p"),
    ];
    for (path, url) in [
        ("s3a://b/x", "http://own/b"),
        ("s3a://c/x", "http://general/c"),
        ("s3://b/x", "http://own/b"),
        ("s3://d/x", "http://s3/d"),
        ("s3://c/x", "http://s3own/c"),
    ] {
        has(&inside(path, &properties, &[]), &[url, "AKIDxxxx"]);
    }
    has(&inside("s3n://d/x", &properties, &[]), &["http://general/d", "AKIDnnnn"]);
}

#[test]
fn r09_credentials_have_an_order_and_never_mix() {
    let token = [("AWS_SESSION_TOKEN", "T0KEN-of-env")];
    let env: Vec<_> = ENV.iter().chain(&token).copied().collect();
    let own = inside("s3a://b/x", &KEYS, &env);
    has(&own, &["AKIDxxxx"]);
    assert!(!own.contains("AKIDeeee"), "{own}");
    let secrets = |properties: Pairs<'_>, env: Pairs<'_>| -> Vec<String> {
        objects("s3a://b/x", properties, env).0.secrets.iter().map(|s| s.expose().to_owned()).collect()
    };
    assert_eq!(secrets(&KEYS, &env), ["AKIDxxxx", "S3CR3T-p"]);
    assert_eq!(secrets(&with(&[("fs.s3a.session.token", "T0KEN")]), &env), ["AKIDxxxx", "S3CR3T-p", "T0KEN"]);
    assert_eq!(secrets(&[], &env), ["AKIDeeee", "S3CR3T-e", "T0KEN-of-env"]);
    let bucket = [("fs.s3a.bucket.b.access.key", "AKIDbbbb"), ("fs.s3a.bucket.b.secret.key", "S3CR3T-b")];
    let general: Vec<_> = bucket.iter().copied().chain(with(&[("fs.s3a.session.token", "T0KEN")])).collect();
    assert_eq!(secrets(&general, &[]), ["AKIDbbbb", "S3CR3T-b"], "a general token is not that of the bucket's keys");
}

#[test]
fn r11_half_a_pair_of_keys_is_a_problem() {
    refuses("s3a://b/x", &KEYS[..1], &ENV, &["fs.s3a.access.key is set without fs.s3a.secret.key"]);
    refuses("s3a://b/x", &KEYS[1..], &ENV, &["fs.s3a.secret.key is set without fs.s3a.access.key"]);
    refuses("s3a://b/x", &[], &ENV[..1], &["AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"]);
    let half = [("fs.s3a.bucket.b.access.key", "AKIDbbbb")];
    refuses("s3a://b/x", &with(&half), &[], &["fs.s3a.bucket.b.access.key is set without"]);
}

#[test]
fn r09_classes_of_credentials_are_understood() {
    let provider = "fs.s3a.aws.credentials.provider";
    let of = |class: &str, more: Pairs<'_>, env: Pairs<'_>| {
        let properties: Vec<_> = more.iter().copied().chain([(provider, class)]).collect();
        inside("s3a://b/x", &properties, env)
    };
    let anonymous = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider";
    has(&of(anonymous, &KEYS, &ENV), &["skip_signature: true"]);
    has(&of("a.b.EnvironmentVariableCredentialsProvider", &KEYS, &ENV), &["AKIDeeee"]);
    has(&of("a.TemporaryAWSCredentialsProvider,\n a.SimpleAWSCredentialsProvider", &KEYS, &ENV), &["AKIDxxxx"]);
    has(&of("DefaultCredentialsProvider", &KEYS, &ENV), &["AKIDeeee"]);
    has(&of("x.IAMInstanceCredentialsProvider", &KEYS, &ENV), &["169.254.169.254"]);
    let temporary = of("TemporaryAWSCredentialsProvider", &with(&[("fs.s3a.session.token", "T0KEN")]), &[]);
    has(&temporary, &["AKIDxxxx"]);
    let refuse = |class: &'static str, words: &[&str]| refuses("s3a://b/x", &with(&[(provider, class)]), &ENV, words);
    refuse("org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider", &["AssumedRole", "not supported", "Simple"]);
    refuse("SimpleAWSCredentialsProvider,com.me.Own", &["Own is not supported", provider]);
    refuse("TemporaryAWSCredentialsProvider", &["none of the classes", "AWS_PROFILE"]);
    refuse("ProfileCredentialsProvider", &["none of the classes"]);
}

#[test]
fn r09_variables_of_kubernetes_and_containers() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "t").unwrap();
    let token = token.to_str().unwrap();
    let web = [("AWS_WEB_IDENTITY_TOKEN_FILE", token), ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")];
    has(&inside("s3a://b/x", &[], &web), &["arn:aws:iam::1:role/r", "https://sts.us-east-1.amazonaws.com"]);
    let relative = [("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x")];
    has(&inside("s3a://b/x", &[], &relative), &["http://169.254.170.2/v2/x"]);
    let full =
        [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://1.2.3.4/x"), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token)];
    has(&inside("s3a://b/x", &[], &full), &["http://1.2.3.4/x"]);
    refuses("s3a://b/x", &[], &full[..1], &["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]);
    let gone = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/no/such"), web[1]];
    refuses("s3a://b/x", &[], &gone, &["AWS_WEB_IDENTITY_TOKEN_FILE", "/no/such"]);
}

#[test]
fn r09_a_profile_of_the_command_line() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws").join(name), text).unwrap();
    };
    write(
        "credentials",
        "# c\n[default]\naws_access_key_id = AKIDdddd\naws_secret_access_key=S3CR3T-d\n\n[ other ]\n\
         aws_access_key_id = AKIDoooo\naws_secret_access_key = S3CR3T=o\naws_session_token = T0KEN\n[half]\n\
         aws_access_key_id = AKIDhhhh\n",
    );
    write(
        "config",
        "[default]\nregion = eu-north-1\ns3 =\n  region = nested\n[profile other]\nregion = eu-south-1\n\
         endpoint_url = http://own:1\n[profile sso]\nsso_session = x\n",
    );
    let home_var = ("HOME", home.path().to_str().unwrap());
    has(&inside("s3a://b/x", &[], &[home_var]), &["AKIDdddd", "s3.eu-north-1.amazonaws.com/b"]);
    let env = [home_var, ("AWS_PROFILE", "other")];
    has(&inside("s3a://b/x", &[], &env), &["AKIDoooo", "http://own:1/b", "eu-south-1"]);
    let secrets = objects("s3a://b/x", &[], &env).0.secrets;
    assert_eq!(secrets[1].expose(), "S3CR3T=o");
    refuses("s3a://b/x", &[], &[home_var, ("AWS_PROFILE", "none")], &["AWS_PROFILE", "none"]);
    refuses("s3a://b/x", &[], &[home_var, ("AWS_PROFILE", "sso")], &["sso_session", "not supported"]);
    refuses("s3a://b/x", &[], &[home_var, ("AWS_PROFILE", "half")], &["aws_access_key_id of profile half"]);
    let file = home.path().join(".aws/credentials");
    let env = [("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap())];
    has(&inside("s3a://b/x", &[], &env), &["AKIDdddd", "us-east-1"]);
}

#[test]
fn r11_without_a_credential_it_says_what_to_set() {
    let env = [("AWS_EC2_METADATA_DISABLED", "true")];
    refuses("s3a://b/x", &[], &env, &["no credential", "fs.s3a.access.key", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"]);
    let jceks = ("hadoop.security.credential.provider.path", "jceks://hdfs/x");
    refuses("s3a://b/x", &[jceks], &[], &["jceks", "not supported"]);
    has(&inside("s3a://b/x", &with(&[jceks]), &[]), &["AKIDxxxx"]);
    has(&inside("s3a://b/x", &[], &[]), &["169.254.169.254"]);
}

#[test]
fn r09_time_outs_retries_and_proxies() {
    let plain = inside("s3a://b/x", &KEYS, &[]);
    has(
        &plain,
        &["max_retries: 5", "retry_timeout: 60s", "timeout: Some(Parsed(30s))", "connect_timeout: Some(Parsed(5s))"],
    );
    let set = with(&[
        ("fs.s3a.connection.timeout", "7000"),
        ("fs.s3a.connection.establish.timeout", "2s"),
        ("fs.s3a.attempts.maximum", "1"),
        ("fs.s3a.proxy.host", "proxy"),
        ("fs.s3a.proxy.port", "3128"),
        ("fs.s3a.proxy.username", "u"),
        ("fs.s3a.proxy.password", "S3CR3T/x"),
        ("fs.s3a.requester.pays.enabled", "true"),
    ]);
    let inside = inside("s3a://b/x", &set, &[]);
    has(
        &inside,
        &["max_retries: 1", "Parsed(7s)", "Parsed(2s)", "http://u:S3CR3T%2Fx@proxy:3128/", "request_payer: true"],
    );
    let wrong = with(&[
        ("fs.s3a.connection.timeout", "soon"),
        ("fs.s3a.bucket.b.attempts.maximum", "-1"),
        ("fs.s3a.proxy.port", "3128"),
        ("fs.s3a.requester.pays.enabled", "maybe"),
    ]);
    refuses(
        "s3a://b/x",
        &wrong,
        &[],
        &[
            "fs.s3a.connection.timeout: ",
            "fs.s3a.bucket.b.attempts.maximum: ",
            "proxy.host",
            "requester.pays.enabled: ",
        ],
    );
}

#[test]
fn r09_encryption_as_far_as_it_is_known() {
    let of = |more: Pairs<'_>| inside("s3a://b/x", &with(more), &[("AWS_SERVER_SIDE_ENCRYPTION", "AES256")]);
    let algorithm = "fs.s3a.encryption.algorithm";
    has(&of(&[(algorithm, "AES256")]), &["\"x-amz-server-side-encryption\": \"AES256\""]);
    has(&of(&[]), &["\"x-amz-server-side-encryption\": \"AES256\""]);
    let kms =
        of(&[("fs.s3a.server-side-encryption-algorithm", "SSE-KMS"), ("fs.s3a.server-side-encryption.key", "arn:k")]);
    has(&kms, &["\"aws:kms\"", "arn:k"]);
    let dsse = of(&[(algorithm, "DSSE-KMS")]);
    assert!(dsse.contains("aws:kms:dsse") && !dsse.contains("kms-key-id"), "{dsse}");
    let key = STANDARD.encode([7; 32]);
    has(&of(&[(algorithm, "SSE-C"), ("fs.s3a.encryption.key", &key)]), &["customer-algorithm"]);
    for (name, key) in [("SSE-C", "S3CR3T"), ("CSE-KMS", "S3CR3T-k"), ("AES256", "S3CR3T-k"), ("none", "S3CR3T-k")] {
        refuses("s3a://b/x", &with(&[(algorithm, name), ("fs.s3a.encryption.key", key)]), &[], &[algorithm]);
    }
}

#[test]
fn r11_all_problems_of_a_bucket_come_at_once() {
    let wrong = [
        ("fs.s3a.access.key", "AKIDxxxx"),
        ("fs.s3a.endpoint", "ftp://x"),
        ("fs.s3a.attempts.maximum", "x"),
        ("fs.s3a.encryption.algorithm", "x"),
        ("fs.s3a.path.style.access", "x"),
    ];
    let problems = opened("s3a://b/x", &wrong, &[]).unwrap_err();
    assert_eq!(problems.len(), 4, "{problems:?}");
}

#[test]
fn r23_an_opened_store_shows_no_key() {
    let debug = format!("{:?}", opened("s3a://b/x", &KEYS, &ENV).unwrap());
    assert_eq!(debug, "Objects(Objects(AmazonS3(b), \"x\"))");
}

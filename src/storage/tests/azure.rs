//! Azure: accounts, keys, signatures, tokens, an emulator.

use super::*;

const AT: &str = "abfss://c@acct.dfs.core.windows.net/a/b";
const KEY: &str = "fs.azure.account.key.acct.dfs.core.windows.net";

#[test]
fn r09_an_account_is_in_the_path_or_set() {
    let key = [(KEY, "QUJD")];
    let (objects, inside) = objects(AT, &key, &[]);
    assert_eq!(objects.prefix.as_ref(), "a/b");
    has(&inside, &["account: \"acct\"", "container: \"c\"", "acct.blob.core.windows.net", "AccessKey"]);
    has(&super::inside("wasb://c@acct.blob.core.windows.net/x", &key, &[]), &["acct.blob.core.windows.net"]);
    let china = [("fs.azure.account.key.acct", "QUJD")];
    has(&super::inside("abfs://c@acct.dfs.core.chinacloudapi.cn/x", &china, &[]), &["acct.blob.core.chinacloudapi.cn"]);
    let zone = super::inside("abfs://c@acct.z01.dfs.storage.azure.net/x", &china, &[]);
    has(&zone, &["acct.z01.blob.storage.azure.net", "account: \"acct\"", "AccessKey"]);
    let env = [("AZURE_STORAGE_ACCOUNT_NAME", "acct"), ("AZURE_STORAGE_ACCOUNT_KEY", "QUJD")];
    has(&super::inside("abfs://c/x", &[], &env), &["account: \"acct\"", "container: \"c\"", "AccessKey"]);
    has(&super::inside("abfs://c/x", &[("fs.azure.account.name", "acct"), (KEY, "QUJD")], &[]), &["AccessKey"]);
    refuses("abfs://c/x", &[], &[], &["names no account", "AZURE_STORAGE_ACCOUNT_NAME"]);
    refuses("abfs://c@acct/x", &[], &[], &["account.dfs.core.windows.net"]);
}

#[test]
fn r09_an_emulator_has_the_account_in_its_path() {
    let at = "abfs://c@devstoreaccount1.dfs.core.windows.net/x";
    for name in ["fs.azure.endpoint", "fs.azure.endpoint.devstoreaccount1.dfs.core.windows.net"] {
        let properties =
            [(name, "http://127.0.0.1:10000/devstoreaccount1/"), ("fs.azure.account.key.devstoreaccount1", "QUJD")];
        let inside = inside(at, &properties, &[]);
        has(
            &inside,
            &["path: \"/devstoreaccount1\"", "port: Some(10000)", "allow_http: Parsed(true)", "is_emulator: false"],
        );
    }
}

#[test]
fn r09_a_key_belongs_to_its_account() {
    let other = [("AZURE_STORAGE_ACCOUNT_NAME", "other"), ("AZURE_STORAGE_ACCOUNT_KEY", "QUJD")];
    let inside = inside(AT, &[], &other);
    assert!(!inside.contains("AccessKey"), "{inside}");
    refuses(AT, &[(KEY, "S3CR3T!!")], &[], &[KEY, "base64"]);
    refuses(AT, &[("fs.azure.account.auth.type", "SharedKey")], &[], &[KEY, "required"]);
    let provider = ("fs.azure.account.keyprovider.acct.dfs.core.windows.net", "x.ShellDecryptionKeyProvider");
    refuses(AT, &[("fs.azure.account.auth.type", "SharedKey"), provider], &[], &["keyprovider", "not supported"]);
    refuses(AT, &[("fs.azure.account.auth.type", "Custom")], &[], &["Custom", "SharedKey, OAuth, SAS"]);
}

#[test]
fn r09_shared_access_signatures() {
    for (name, at) in [
        ("fs.azure.sas.fixed.token.acct.dfs.core.windows.net", AT),
        ("fs.azure.sas.fixed.token", AT),
        ("fs.azure.sas.c.acct.blob.core.windows.net", "wasbs://c@acct.blob.core.windows.net/x"),
    ] {
        has(&inside(at, &[(name, "?sv=1&sig=S3CR3T-x%3D")], &[]), &["SASToken"]);
        refuses(at, &[(name, "S3CR3T-x")], &[], &[name, "sig="]);
    }
    has(&inside(AT, &[("fs.azure.account.auth.type", "SAS")], &[("AZURE_STORAGE_SAS_TOKEN", "sig=x")]), &["SASToken"]);
}

#[test]
fn r09_tokens_of_a_client() {
    let provider = "fs.azure.account.oauth.provider.type.acct.dfs.core.windows.net";
    let client = [
        ("fs.azure.account.auth.type.acct.dfs.core.windows.net", "OAuth"),
        (provider, "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"),
        ("fs.azure.account.oauth2.client.id.acct.dfs.core.windows.net", "id"),
        ("fs.azure.account.oauth2.client.secret.acct.dfs.core.windows.net", "S3CR3T-c"),
        ("fs.azure.account.oauth2.client.endpoint.acct.dfs.core.windows.net", "https://login.x/tenant-1/oauth2/token"),
    ];
    has(&inside(AT, &client, &[]), &["https://login.x/tenant-1/oauth2/v2.0/token"]);
    refuses(AT, &client[..4], &[], &["client.endpoint", "required"]);
    refuses(AT, &client[..3], &[], &["client.secret", "required"]);
    refuses(AT, &client[..2], &[], &["client.id", "required"]);
    let mut wrong = client;
    wrong[4].1 = "https://login.x/a/b/c";
    refuses(AT, &wrong, &[], &["client.endpoint", "TENANT"]);
    wrong[1].1 = "x.UserPasswordTokenProvider";
    refuses(AT, &wrong, &[], &["UserPasswordTokenProvider", "ClientCredsTokenProvider"]);
    let env = [("AZURE_CLIENT_ID", "id"), ("AZURE_CLIENT_SECRET", "S3CR3T-c"), ("AZURE_TENANT_ID", "t")];
    has(&inside(AT, &[], &env), &["https://login.microsoftonline.com/t/oauth2"]);
}

#[test]
fn r09_identities_of_the_machine_and_of_kubernetes() {
    let kind = "fs.azure.account.oauth.provider.type";
    let msi = [
        ("fs.azure.account.auth.type", "OAuth"),
        (kind, "x.MsiTokenProvider"),
        ("fs.azure.account.oauth2.msi.tenant", "t"),
    ];
    has(&inside(AT, &msi, &[]), &["ImdsManagedIdentityProvider"]);
    has(&inside(AT, &[], &[]), &["ImdsManagedIdentityProvider"]);
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "t").unwrap();
    let token = token.to_str().unwrap();
    let env = [
        ("AZURE_CLIENT_ID", "id"),
        ("AZURE_TENANT_ID", "t"),
        ("AZURE_FEDERATED_TOKEN_FILE", token),
        ("AZURE_AUTHORITY_HOST", "https://login.x/"),
    ];
    has(&inside(AT, &[], &env), &["https://login.x/t/oauth2"]);
    has(&inside(AT, &[(kind, "x.WorkloadIdentityTokenProvider")], &env), &["https://login.x/t/oauth2"]);
    refuses(AT, &[(kind, "x.WorkloadIdentityTokenProvider")], &env[..2], &["AZURE_FEDERATED_TOKEN_FILE", "required"]);
}

#[test]
fn r23_an_opened_container_shows_no_key() {
    let debug = format!("{:?}", opened(AT, &[(KEY, "QUJD")], &[]).unwrap());
    assert!(!debug.contains("AccessKey") && debug.contains("acct"), "{debug}");
}

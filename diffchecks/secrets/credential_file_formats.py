"""Finds secrets by the formats of credential files: netrc, htpasswd, dumps, Kubernetes Secrets."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from diffchecks.secrets.secret_plausibility import Hit, is_entered

# A users table in a dump may contain plain digests, recognizable only by the table's name.
_INSERT_USERS = re.compile(
    r"^\s{0,8}(?:INSERT|REPLACE)\s+INTO\s+[`\"'\[.\w]{0,60}"
    r"(?:user|member|account|customer|admin|login|auth)[^;]{0,20000}",
    re.MULTILINE | re.IGNORECASE,
)
_DIGEST = re.compile(r"'((?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}))'", re.IGNORECASE)


def find_in_credential_file(path: str, text: str) -> Iterator[Hit]:
    """Secrets that the format shows which the file's name tells; lines end in ``\\n``."""
    lower = path.lower()
    for rule in credential_rules():
        if not rule.file.fullmatch(lower):
            continue
        for match in rule.line.finditer(text):
            if is_entered(match[1]):
                yield Hit(rule.code, rule.what, *match.span(1))
    if lower.endswith((".sql", ".dump")):
        for insert in _INSERT_USERS.finditer(text):
            for digest in _DIGEST.finditer(text, *insert.span()):
                yield Hit("sql-password-hash", "Password hash in a database dump", *digest.span(1))


_CRYPT = (
    r"\$(?:apr1|1|2[abxy]?|5|6|7|y|gy|sha1|md5)\$[^\s:'\"]{20,200}"
    r"|\{[A-Z][A-Z0-9.-]{2,19}\}[^\s:]{3,200}"
)
_HASH = (
    r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}|\$(?:1|5|6|y|P|H)\$[./A-Za-z0-9$=,]{20,140}"
    r"|pbkdf2_sha\d+\$[^'\"\s]{40,200}|\$argon2[^'\"\s]{40,200}"
)
_VALUE = r"[\"']?([^\s\"'#;,]{1,500})"

# code | what it is | file name or end of path (whole, lower case) | line; group 1 is the secret
_TABLE = rf"""
netrc-password | Password in a .netrc file | [._]netrc|\.authinfo | \b(?:password|passwd)\s+(\S{{1,200}})
pgpass-password | Password in a .pgpass file | \.pgpass|pgpass\.conf | ^[^#:\n]*:[^:\n]*:[^:\n]*:[^:\n]*:(.{{1,200}})$
npmrc-token | Token in an .npmrc file | \.npmrc | (?:_auth(?:Token)?|_password)\s*=\s*{_VALUE}
npmrc-token | Token in a .yarnrc.yml file | \.yarnrc\.yml | npmAuth(?:Token|Ident):\s*{_VALUE}
pypirc-password | Password in a .pypirc file | \.pypirc | ^\s*password\s*[=:]\s*{_VALUE}
git-credentials | Password in a .git-credentials file | \.git-credentials | ://[^:/\s]*:(\S+)@[^@\s]+$
htpasswd-hash | Password hash of a web, mail or FTP user | .*htpasswd.*|.*ftp.*passwd|\.?htusers|(?:.*[._-])?passwd(?:[._-].*)?|pwfile|users|dovecot.* | ^[^:\s#]+:({_CRYPT}|[./A-Za-z0-9]{{13}}(?=:|\s*$))
htpasswd-hash | Password digest of a web user | .*htdigest.* | ^[^:\s#]+:[^:\n]+:([0-9a-f]{{32}})$
shadow-hash | Password hash of a system user | g?shadow(?:[-.].*)?|master\.passwd | ^[^:\s#]+:!?({_CRYPT}|[./A-Za-z0-9]{{13}}):
docker-auth | Registry login in a Docker configuration | \.dockercfg|\.?dockerconfig.*|\.docker/config\.json|config\.json | "(?:auth|identitytoken|registrytoken)"\s*:\s*"([A-Za-z0-9+/=_.-]{{8,2000}})"
kubeconfig-credential | Credential in a kubeconfig file | kubeconfig.*|.*\.kubeconfig|\.kube/config|config|(?:admin|kubelet|controller-manager|scheduler)\.conf|.*kube.?config.*\.ya?ml | ^[\s-]*(?:client-key-data|token|password|id-token|refresh-token):\s*{_VALUE}
filezilla-password | Password in a FileZilla file | (?:recentservers|filezilla(?:[ _-]server)?|sitemanager)\.xml | <Pass(?: [^>]{{0,80}})?>([^<\n]{{1,400}})</Pass>
filezilla-password | Password in a FileZilla file | filezilla(?:[ _-]server)?\.xml | <(?i:setting|option) (?i:name)="[\w ]{{0,30}}(?i:pass|password)"[^>]{{0,60}}>([^<\n]{{1,400}})</
firefox-login | Saved login of Firefox | logins(?:-backup)?\.json | "encrypted(?:Password|Username)"\s*:\s*"([^"\n]{{1,800}})"
rails-master-key | Master key of an application | (?:master|production|staging|development|credentials|secret)\.key | ^([0-9a-f]{{32,512}})$
mail-password | Password of a mail account | \.?(?:e?smtprc|msmtprc|fetchmailrc|mailrc|getmailrc|mbsyncrc|offlineimaprc|muttrc)|(?:fetchmail|s?smtp)\.conf | ^(?:[^#\n]*\s)?\w{{0,20}}(?i:pass|password|passwd)\b[ \t]*[= \t][ \t]*["']?([^\s"'`][^\s"']{{0,200}})
mail-password | Password of a mail account | authinfo|client-info | "P[:=]([^"\n]{{1,200}})"
mail-password | Password of a mail account | .*sasl_passw(?:or)?d | ^[^#\s]\S*[ \t]+[^:\s]+:(\S{{1,200}})$
mail-password | Password of a mail account | passwd\.client | ^[^#:\s]+:[^:\s]+:(\S{{1,200}})$
credential-file | Secret in a file of credentials | chap-secrets|pap-secrets | ^[^#\s]+\s+\S+\s+["']?([^\s"']{{1,200}})
credential-file | Secret in a file of credentials | ipsec\.secrets|.*\.secrets | \b(?:PSK|XAUTH|EAP)\s+"([^"\n]{{1,300}})"
credential-file | Secret in a file of credentials | rsyncd\.secrets|\.?passwd-s3fs|ftpusers | ^[^:#\s]+:(\S{{1,200}})$
credential-file | Secret in a file of credentials | \.vault-token|\.vault[-_]pass(?:word)?(?:\.txt)?|\.cargo/credentials(?:\.toml)? | ^\s*(?:token\s*=\s*)?["']?([^\s"'\[\]#]{{8,500}})["']?$
credential-file | Secret in a file of credentials | credentials\.tfrc\.json|\.terraformrc|terraform\.rc | "?token"?\s*[:=]\s*"([^"\n]{{1,300}})"
wifi-password | Passphrase of a wireless network | wpa_supplicant.*\.conf|hostapd.*\.conf|.*\.nmconnection | ^\s*(?:psk|wpa_passphrase|wpa_psk|password)\s*=\s*"?([^"\n]{{8,64}})
wireguard-key | WireGuard private key | .*\.conf|.*\.netdev | ^\s*(?:PrivateKey|PresharedKey)\s*=\s*([A-Za-z0-9+/]{{43}}=)
nuget-password | Password in a NuGet configuration | nuget\.config | key="(?:ClearText)?Password"\s+value="([^"\n]{{1,400}})"
wordpress-secret | Password or key of a WordPress site | wp-config.*\.php | define\(\s*["'](?:DB_PASSWORD|FTP_PASS|\w{{0,20}}_(?:KEY|SALT))["']\s*,\s*["']((?:[^"'\\\n]|\\.){{1,200}})["']
sql-password | Password set in SQL | .*\.(?:sql|ddl|psql|mysql)|.*dump.*|\.\w+_history | (?i:identified\s+(?:with\s+\S{{1,40}}\s+)?by\s+(?:password\s+)?|\b(?:user|role|login)\s+[^\n;]{{1,120}}?\bpassword\s*=?\s*)'([^'\n]{{1,200}})'
sql-password-hash | Password hash in a database dump | .*\.(?:sql|dump|csv|ddl)|.*dump.* | ({_HASH})
credential-file | Secret in a remote configuration | \.?(?:sftp|ftp|remote|deploy|robomongo|webservers)[\w.-]{{0,30}}\.(?:json|xml)|\.ftp(?:config|pass)|datasources.*\.xml|dbeaver.*|.*data-sources.*|credentials\.xml|settings\.xml|auth\.json | (?i:["'\s<](?:\w{{0,30}}pass(?:word|wd|phrase)?|\w{{0,30}}secret|token)["']?\s{{0,4}}[:=>]?\s{{0,4}})["'>]([^"'<>\n]{{1,500}})["'<]
credential-file | Token in Composer's auth.json | auth\.json | "(?:github-oauth|gitlab-oauth|gitlab-token|bearer)"\s*:\s*\{{\s*"[^"\n]{{1,100}}"\s*:\s*"([^"\n]{{1,400}})"
credential-file | Password in Bundler's configuration | \.bundle/config | ^BUNDLE_\w{{1,100}}:[ \t]*"?[^:"\s]{{1,80}}:((?!//)[^"\s]{{1,200}})
credential-file | Token in a .yarnrc file | \.yarnrc | _authToken"?[ \t]+"([^"\n]{{1,400}})"
credential-file | Password in a .curlrc file | [._]curlrc | ^[ \t]*(?:-u|(?:proxy-)?user)[ \t]*[=: \t][ \t]*"?[^:"\s]{{1,80}}:([^"\s]{{1,200}})
credential-file | Password kept by Subversion | .*svn\.(?:simple|ssl\.client-passphrase)/[^/]+ | ^(?:password|passphrase)\nV \d{{1,4}}\n([^\n]{{1,200}})$
credential-file | Password kept by CVS | \.cvspass | ^(?:/1 )?:\w{{1,20}}:\S{{1,200}} (A\S{{1,200}})$
credential-file | Ticket of Perforce | \.p4tickets | ^\S{{1,200}}=[^:\s]{{1,80}}:([0-9A-F]{{32}})$
credential-file | Key in a list of AWS access keys | .*\.csv | (?:^|,)(?:AKIA|ASIA)[A-Z0-9]{{16}},([A-Za-z0-9/+]{{40}})(?:,|$)
credential-file | Credential in Azure publish settings | .*\.publish(?:settings|profile) | (?:ManagementCertificate|userPWD)="([^"\n]{{1,8000}})"
credential-file | Passphrase in Maven's security settings | settings-security\.xml | <master>([^<\n]{{1,400}})</master>
credential-file | Machine key of an ASP.NET site | .*\.config | (?:validation|decryption)Key="([0-9A-Fa-f]{{40,256}})
credential-file | Encryption key of a Magento shop | env\.php | 'crypt'\s*=>\s*(?:\[|array\s*\()\s*'key'\s*=>\s*'([^'\n]{{1,200}})'
credential-file | Password of a database connection | connections\.xml | addrType="password">\s*<Contents>([^<\n]{{1,400}})<
credential-file | Password in a remote desktop file | .*\.rdp | ^password 51:b:([0-9A-Fa-f]{{32,4000}})$
credential-file | Password in an answer file of Windows | .*unattend.*\.xml|sysprep\.xml | Password>\s*<Value>([^<\n]{{1,400}})</Value>
credential-file | Password in a group policy | (?:groups|services|scheduledtasks|drives|printers|datasources)\.xml | cpassword="([^"\n]{{1,400}})"
credential-file | Password in a kickstart file | .*\.ks|.*ks.*\.cfg|kickstart.* | ^[ \t]*rootpw[ \t]+(?:--\w+[ \t]+){{0,4}}((?!-)\S{{1,200}})
credential-file | Password in a preseed file | .*preseed.*|.*\.seed | ^d-i[ \t]+passwd/\S{{0,40}}password\S{{0,20}}[ \t]+password[ \t]+(\S{{1,200}})
credential-file | Password in cloud-init's data | user-?data.*|cloud-?(?:init|config).* | ^[ \t-]*(?:hashed_passwd|plain_text_passwd|passwd|password):[ \t]*{_VALUE}
credential-file | Password in cloud-init's data | user-?data.*|cloud-?(?:init|config).* | ^[ \t]+[a-z_][a-z0-9_-]{{0,31}}:((?!R$|RANDOM$)[^\s:]{{3,200}})$
credential-file | Password of a managed host | (?:.*[._-])?hosts?|inventory.*|.*\.(?:ini|ya?ml) | \bansible_(?:ssh_|become_|sudo_|su_)?pass(?:word)?[ \t]*[=:][ \t]*(?!\w+=){_VALUE}
credential-file | Password of a Redis server | (?:.*[._-])?(?:redis|sentinel)(?:[._-].*)?\.conf | ^[ \t]*(?:requirepass|masterauth|sentinel[ \t]+auth-pass[ \t]+\S{{1,80}})[ \t]+{_VALUE}
credential-file | Password of a directory | (?:slapd|nslcd|ldap|pam_ldap|sssd)\.conf | ^[ \t]*(?:rootpw|bindpw|ldap_default_authtok[ \t]*=)[ \t]*{_VALUE}
credential-file | Password of a directory | .*\.ldif | ^userPassword::?[ \t]+(\S{{1,400}})$
credential-file | Secret of a RADIUS user | users|authorize|.*radius.* | \b(?:Cleartext|User|Crypt|NT)-Password[ \t]*:=[ \t]*"([^"\n]{{1,200}})"
credential-file | Secret that a server shares with its clients | (?:clients|swanctl|(?:pj)?sip|iax|manager)\.conf | ^[ \t]*(?:md5)?secret(?:-\w{{1,20}})?[ \t]*=>?[ \t]*{_VALUE}
credential-file | Password in the configuration of a router | .*\.(?:conf|cfg)|.*-confg?|.*(?:running|startup)[-_]config.* | ^[ \t]*(?:enable|username[ \t]+\S{{1,60}}(?:[ \t]+privilege[ \t]+\d{{1,2}})?)[ \t]+(?:secret|password)[ \t]+(?:\d[ \t]+)?(\S{{1,200}})[ \t]*$
credential-file | Password in the configuration of a router | .*\.(?:conf|cfg)|.*juniper.* | \bencrypted-password[ \t]+"([^"\n]{{1,200}})"
credential-file | Password of an SNMP user | snmpd?\.conf | ^[ \t]*createUser[ \t]+\S{{1,60}}[ \t]+(?:MD5|SHA\S{{0,4}})[ \t]+{_VALUE}
credential-file | Password of a proxy's user | .*haproxy.*|.*\.cfg | \b(?:insecure-password[ \t]+|stats[ \t]+auth[ \t]+[^:\s]{{1,60}}:)(\S{{1,200}})
credential-file | Password of a proxy's manager | squid.*\.conf | ^[ \t]*cachemgr_passwd[ \t]+((?!disable|none)\S{{1,200}})[ \t]+\w
credential-file | Password hash of a Windows user | smbpasswd|.*pwdump.*|.*hashes.*|.*\.ntds | ^[^:\n]{{1,100}}:\d{{1,10}}:([0-9A-Fa-fXN* ]{{32}}:[0-9A-Fa-f]{{32}}):
credential-file | Gossip key of a cluster | .*(?:consul|nomad|serf).*\.(?:json|hcl) | "?encrypt(?:_key)?"?[ \t]*[:=][ \t]*"([A-Za-z0-9+/]{{22,43}}={{1,2}})"
credential-file | Token of Snyk | (?:.*/)?configstore/.*\.json|snyk\.json | "api"\s*:\s*"([0-9a-f-]{{36}})"
credential-file | Token of SonarQube | sonar-project\.properties | ^sonar\.(?:login|token|password)[ \t]*=[ \t]*(\S{{1,200}})
credential-file | Token of Codecov | \.?codecov\.ya?ml | ^[ \t]*token:[ \t]*["']?([0-9a-f-]{{36}})
credential-file | Password hash of a notebook server | jupyter_\w{{0,40}}config\.(?:json|py) | password["']?[ \t]*[:=][ \t]*u?["']((?:sha1|sha256|argon2):[^"'\n]{{20,200}})
credential-file | Seed of one-time passwords | \.google_authenticator | \A([A-Z2-7]{{16,64}})$
"""  # noqa: E501 - one row a kind of line


class CredentialRule(NamedTuple):
    """The pattern of a credential in one kind of file."""

    code: str
    what: str
    file: re.Pattern[str]
    line: re.Pattern[str]


@cache
def credential_rules() -> tuple[CredentialRule, ...]:
    """All rules in the order of the table; compiled on first use."""
    rules = []
    for row in _TABLE.strip().splitlines():
        code, what, file, line = row.split(" | ", 3)
        name = re.compile(rf"(?:.*/)?(?:{file})", re.DOTALL)
        rules.append(CredentialRule(code, what, name, re.compile(line, re.MULTILINE)))
    return tuple(rules)

"""The formats of tokens that services issue, as a table, and the search for such tokens.

A format is what the issuer documents: a fixed prefix, an alphabet and a length. Every pattern takes
linear time: repetitions are not nested, and each is bounded or cannot be followed by what it
repeats.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from diffchecks.secrets.secret_plausibility import Hit, compute_entropy, is_made_up

_HEX32, _HEX40, _HEX64 = r"[0-9a-f]{32}", r"[0-9a-f]{40}", r"[0-9a-f]{64}"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

# code | what it is | a text that a file must hold to be searched (``,``: any of them) | pattern
# The whole match is the secret, or its group ``s``.
_TABLE = rf"""
aws-access-key | AWS access key | AKIA,ASIA | (?:AKIA|ASIA)[A-Z0-9]{{16}}
aws-secret-key | AWS secret key | aws_,AWS_,AWSSecret,aws.,ecretAccessKey,ecret_access_key | (?i:aws|secret)[\w.-]{{0,20}}(?i:key)["'\s:=>]{{1,8}}(?P<s>[A-Za-z0-9/+]{{40}})(?![/+=])
aws-bedrock-key | Amazon Bedrock API key | ABSK | ABSK[A-Za-z0-9+/]{{109,269}}={{0,2}}
google-api-key | Google API key | AIza | AIza[0-9A-Za-z_-]{{35}}
google-oauth-secret | Google OAuth client secret | GOCSPX- | GOCSPX-[0-9A-Za-z_-]{{28}}
google-oauth-token | Google OAuth refresh token | 1//0 | 1//0[0-9A-Za-z_-]{{40,120}}
google-oauth-token | Google OAuth token | ya29. | ya29\.[0-9A-Za-z_-]{{30,600}}
azure-storage-key | Azure storage account key | AccountKey= | AccountKey=(?P<s>[A-Za-z0-9+/]{{86}}==)
azure-shared-access-key | Azure shared access key | SharedAccessKey= | SharedAccessKey=(?P<s>[A-Za-z0-9+/]{{43,56}}={{0,2}})
azure-sas-token | Azure shared access signature | sig= | sig=(?P<s>[A-Za-z0-9/+%]{{43,60}}(?:%3D|=))
azure-client-secret | Azure client secret | Q~ | [A-Za-z0-9_~.-]{{3}}[78]Q~[A-Za-z0-9_~.-]{{31,34}}
azure-devops-token | Azure DevOps token | AZDO | [A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}
github-token | GitHub token | ghp_,gho_,ghu_,ghs_,ghr_ | gh[pousr]_[A-Za-z0-9]{{36,76}}
github-token | GitHub fine-grained token | github_pat_ | github_pat_[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}
gitlab-token | GitLab token | glpat-,glptt-,gldt-,glrt-,glrtr-,glcbt-,gloas-,glsoat-,glagent-,glimt-,glft-,glffct-,glwt- | gl(?:pat|ptt|dt|rt|rtr|cbt|oas|soat|agent|imt|ft|ffct|wt)-[0-9A-Za-z_-]{{20,64}}
gitlab-token | GitLab runner registration token | GR1348941 | GR1348941[0-9A-Za-z_-]{{20}}
bitbucket-token | Bitbucket app password | ATBB | ATBB[A-Za-z0-9]{{32}}
atlassian-token | Atlassian API token | ATATT3,ATCTT3 | AT[AC]TT3[\w=-]{{60,220}}
slack-token | Slack token | xoxa-,xoxb-,xoxe-,xoxo-,xoxp-,xoxr-,xoxs- | xox[abeoprs]-(?:\d-)?[0-9A-Za-z]{{8,16}}-[0-9A-Za-z-]{{10,200}}
slack-token | Slack app token | xapp- | xapp-\d-[A-Z0-9]{{8,16}}-\d{{8,16}}-[a-z0-9]{{32,80}}
slack-webhook | Slack webhook | hooks.slack.com | hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[TE][A-Z0-9]{{6,12}}/[AB0-9][A-Z0-9]{{6,14}}/[A-Za-z0-9/]{{20,80}})
discord-webhook | Discord webhook | /api/webhooks/ | discord(?:app)?\.com/api/webhooks/\d{{17,20}}/(?P<s>[\w-]{{60,80}})
discord-bot-token | Discord bot token | iscord,DISCORD | [MNO][A-Za-z\d_-]{{23,25}}\.[A-Za-z\d_-]{{6}}\.[A-Za-z\d_-]{{27,38}}
telegram-bot-token | Telegram bot token | :AA | \d{{8,10}}:AA[A-Za-z0-9_-]{{33}}
teams-webhook | Microsoft Teams webhook | webhook.office.com | webhook\.office\.com/webhookb2/(?P<s>{_UUID}@{_UUID}/IncomingWebhook/{_HEX32})
stripe-key | Stripe live key | k_live_ | [sr]k_live_[0-9A-Za-z]{{20,200}}
stripe-test-key | Stripe test key | k_test_ | [sr]k_test_[0-9A-Za-z]{{20,200}}
stripe-webhook-secret | Stripe webhook secret | whsec_ | whsec_[0-9A-Za-z+/]{{32,64}}
square-token | Square token | sq0,EAAA | sq0(?:atp-[\w-]{{22}}|csp-[\w-]{{43}})|EAAAE[\w-]{{59,60}}
braintree-token | Braintree access token | access_token$production$ | access_token\$production\$[0-9a-z]{{16}}\${_HEX32}
razorpay-key | Razorpay live key | rzp_live_ | rzp_live_[A-Za-z0-9]{{14}}
shopify-token | Shopify token | shpat_,shpca_,shppa_,shpss_ | shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}
openai-key | OpenAI API key | T3BlbkFJ | sk-[A-Za-z0-9_-]{{20,120}}T3BlbkFJ[A-Za-z0-9_-]{{20,120}}
openai-key | OpenAI API key | sk-proj-,sk-svcacct-,sk-admin- | sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{{40,200}}
openai-style-key | API key in OpenAI's format | sk- | sk-[A-Za-z0-9]{{48}}
anthropic-key | Anthropic API key | sk-ant- | sk-ant-[a-z]{{3,5}}\d{{2}}-[A-Za-z0-9_-]{{40,140}}
openrouter-key | OpenRouter API key | sk-or-v1- | sk-or-v1-{_HEX64}
huggingface-token | Hugging Face token | hf_,api_org_ | (?:hf_|api_org_)[A-Za-z0-9]{{34,40}}
groq-key | Groq API key | gsk_ | gsk_[A-Za-z0-9]{{52}}
replicate-token | Replicate API token | r8_ | r8_[A-Za-z0-9]{{37}}
perplexity-key | Perplexity API key | pplx- | pplx-[A-Za-z0-9]{{48}}
xai-key | xAI API key | xai- | xai-[A-Za-z0-9]{{70,90}}
langsmith-key | LangSmith API key | lsv2_ | lsv2_(?:pt|sk)_{_HEX32}_[0-9a-f]{{10}}
npm-token | npm access token | npm_ | npm_[A-Za-z0-9]{{36}}
pypi-token | PyPI upload token | pypi-AgE | pypi-AgE[A-Za-z0-9_-]{{50,600}}
rubygems-key | RubyGems API key | rubygems_ | rubygems_[0-9a-f]{{48}}
nuget-key | NuGet API key | oy2 | oy2[a-z0-9]{{43}}
clojars-token | Clojars deploy token | CLOJARS_ | CLOJARS_[a-z0-9]{{60}}
dockerhub-token | Docker Hub token | dckr_ | dckr_(?:pat_[\w-]{{27}}|oat_[\w-]{{32}})
artifactory-key | Artifactory API key | AKCp,cmVmd | AKCp[A-Za-z0-9]{{69}}|cmVmd[A-Za-z0-9]{{59}}
twilio-key | Twilio API key | wilio,TWILIO | SK{_HEX32}
sendgrid-key | SendGrid API key | SG. | SG\.[\w-]{{20,24}}\.[\w-]{{39,50}}
mailgun-key | Mailgun API key | ailgun,MAILGUN | key-{_HEX32}|{_HEX32}-[0-9a-f]{{8}}-[0-9a-f]{{8}}
mailchimp-key | Mailchimp API key | -us | {_HEX32}-us\d{{1,2}}
brevo-key | Brevo API key | xkeysib- | xkeysib-{_HEX64}-[A-Za-z0-9]{{16}}
digitalocean-token | DigitalOcean token | _v1_ | do[opr]_v1_{_HEX64}
heroku-key | Heroku API key | eroku,HEROKU,HRKU | HRKU-[\w-]{{36,80}}|(?i:heroku)[\w.-]{{0,20}}["'\s:=>]{{1,8}}(?P<s>{_UUID})
fly-token | Fly.io token | FlyV1,fo1_ | FlyV1 fm\d[\w+/=,-]{{80,2000}}|fo1_[\w-]{{43}}
netlify-token | Netlify token | nfp_ | nfp_[A-Za-z0-9]{{36,40}}
supabase-key | Supabase key | sbp_,sb_secret_ | sbp_{_HEX40}|sb_secret_[\w-]{{31,60}}
planetscale-token | PlanetScale token | pscale_ | pscale_(?:tkn|pw|oauth)_[\w.-]{{32,64}}
databricks-token | Databricks token | dapi | dapi{_HEX32}(?:-\d)?
terraform-token | Terraform Cloud token | .atlasv1. | [A-Za-z0-9]{{14}}\.atlasv1\.[\w-]{{60,70}}
vault-token | HashiCorp Vault token | hvs.,hvb.,hvr. | hv[sbr]\.[\w-]{{24,300}}
pulumi-token | Pulumi token | pul- | pul-{_HEX40}
doppler-token | Doppler token | dp. | dp\.(?:pt|st|sa|ct|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?[A-Za-z0-9]{{40,44}}
onepassword-token | 1Password service account token | ops_eyJ | ops_eyJ[A-Za-z0-9+/_-]{{200,2000}}={{0,3}}
age-secret-key | age secret key | AGE-SECRET-KEY-1 | AGE-SECRET-KEY-1[0-9A-Z]{{58}}
tailscale-key | Tailscale key | tskey- | tskey-[a-z]{{3,10}}-[A-Za-z0-9]{{6,20}}-[A-Za-z0-9]{{10,60}}
newrelic-key | New Relic key | NRAK-,NRII- | NRAK-[A-Z0-9]{{27}}|NRII-[\w-]{{32}}
grafana-token | Grafana token | glsa_,glc_ | glsa_[A-Za-z0-9]{{32}}_[0-9a-f]{{8}}|glc_[A-Za-z0-9+/]{{32,400}}={{0,3}}
sentry-token | Sentry token | sntry | sntrys_eyJ[A-Za-z0-9+/=_-]{{80,500}}|sntryu_{_HEX64}
dynatrace-token | Dynatrace token | dt0 | dt0[a-z]\d\d\.[A-Z0-9]{{24}}\.[A-Z0-9]{{64}}
sonar-token | SonarQube token | sqa_,sqp_,squ_ | sq[apu]_{_HEX40}
linear-key | Linear API key | lin_api_ | lin_api_[A-Za-z0-9]{{40}}
notion-token | Notion token | ntn_,secret_ | ntn_[A-Za-z0-9]{{40,50}}|secret_[A-Za-z0-9]{{43}}
airtable-token | Airtable token | irtable,AIRTABLE | pat[A-Za-z0-9]{{14}}\.{_HEX64}
hubspot-token | HubSpot token | pat- | pat-(?:na|eu)\d-{_UUID}
figma-token | Figma token | figd_ | figd_[\w-]{{38,45}}
dropbox-token | Dropbox token | sl. | sl\.(?:u\.)?[\w-]{{130,1200}}
facebook-token | Facebook access token | EAA | EAA[A-Za-z0-9]{{90,300}}
twitter-token | Twitter bearer token | AAAAAAAAAAAAAAAAAAAA | A{{20,22}}[A-Za-z0-9%]{{60,120}}
firebase-server-key | Firebase server key | :APA91 | AAAA[\w-]{{7}}:APA91[\w-]{{130,140}}
mapbox-token | Mapbox secret token | sk.eyJ | sk\.eyJ[\w-]{{20,200}}\.[\w-]{{20,40}}
postman-key | Postman API key | PMAK- | PMAK-[0-9a-f]{{24}}-[0-9a-f]{{34}}
buildkite-token | Buildkite token | bkua_ | bkua_{_HEX40}
alibaba-key | Alibaba Cloud access key | LTAI | LTAI[A-Za-z0-9]{{16,24}}
tencent-key | Tencent Cloud secret id | AKID | AKID[A-Za-z0-9]{{32}}
yandex-key | Yandex Cloud API key | AQVN | AQVN[\w-]{{35,38}}
anaconda-token | Token of an Anaconda channel | /t/ | t/(?P<s>[a-z]{{2}}-{_UUID})
salesforce-token | Salesforce login URL | force:// | force://[^\s:@]{{0,200}}:[^\s:@]{{0,200}}:(?P<s>5Aep[\w.]{{60,200}})(?=@)
vault-unseal-key | Vault unseal key | Unseal Key | Unseal Key \d{{1,2}}: (?P<s>[A-Za-z0-9+/]{{43,48}}={{0,2}})
one-time-password-seed | Seed of one-time passwords | otpauth:// | otpauth://[^\s"'<>]{{1,300}}?[?&]secret=(?P<s>[A-Z2-7]{{16,128}})
extended-private-key | Extended private key of a wallet | xprv | xprv[1-9A-HJ-NP-Za-km-z]{{107}}
json-web-token | JSON Web Token | eyJ | eyJ[A-Za-z0-9_-]{{14,2000}}\.eyJ[A-Za-z0-9_-]{{14,4000}}\.[A-Za-z0-9_-]{{20,1000}}
"""  # noqa: E501 - one row a shape


class TokenFormat(NamedTuple):
    """The format of a service's tokens."""

    code: str
    what: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


@cache
def token_formats() -> tuple[TokenFormat, ...]:
    """All formats in the order of the table; the first match names the secret.

    Compiled on first use, so that workers with other checks do not pay for it.
    """
    formats = []
    for row in _TABLE.strip().splitlines():
        code, what, hints, pattern = row.split(" | ", 3)
        # A token is not part of a longer sequence of letters and digits.
        bounded = re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", re.ASCII)
        formats.append(TokenFormat(code, what, tuple(hints.split(",")), bounded))
    return tuple(formats)


@cache
def _hints() -> tuple[tuple[str, TokenFormat], ...]:
    """Each hint with its format, in the order of the formats."""
    return tuple((hint, shape) for shape in token_formats() for hint in shape.hints)


# Published for everybody's use: emulators and documentation.
PUBLIC = frozenset(
    {
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
    }
)


def find_tokens(text: str) -> Iterator[Hit]:
    """Tokens that have the shape in which a service issues them."""
    # Most texts hold no hint at all: a comprehension finds that out in a tenth of the time.
    for shape in dict.fromkeys([shape for hint, shape in _hints() if hint in text]):
        for match in shape.pattern.finditer(text):
            group = "s" if match.groupdict().get("s") else 0
            token = match[group]
            # Some services pad; after padding, following characters do not matter.
            own = token.lstrip("A")
            if token in PUBLIC or is_made_up(own) or compute_entropy(own) < 3.0:
                continue
            yield Hit(shape.code, shape.what, *match.span(group))

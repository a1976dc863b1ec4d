package policy_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule/policy"
)

// extenders returns a KubeSchedulerConfiguration with extenders.
func extenders(list string) string { return configHead + "extenders: [" + list + "]" }

// TestExtenders checks that all fields of an extender are read, in both kinds of files.
func TestExtenders(t *testing.T) {
	want := policy.Extender{
		URLPrefix: "https://x/y", FilterVerb: "f", PreemptVerb: "p", PrioritizeVerb: "s", BindVerb: "b", Weight: 3, EnableHTTPS: true,
		TLS:         &policy.ExtenderTLS{ServerName: "n", CertFile: "c", KeyFile: "k", CAFile: "a", CertData: []byte("x"), KeyData: []byte("y"), CAData: []byte("z")},
		HTTPTimeout: 2 * time.Second, NodeCacheCapable: true, Ignorable: true,
		ManagedResources: []policy.ManagedResource{{Name: "example.com/a", IgnoredByScheduler: true}, {Name: "example.com/b"}},
	}
	const common = "urlPrefix: 'https://x/y', filterVerb: f, preemptVerb: p, prioritizeVerb: s, bindVerb: b, weight: 3, nodeCacheCapable: true, ignorable: true, " +
		"tlsConfig: {serverName: 'n', certFile: c, keyFile: k, caFile: a, certData: eA==, keyData: 'eQ==', caData: eg==}, " +
		"managedResources: [{name: example.com/a, ignoredByScheduler: true}, {name: example.com/b}], "
	for _, f := range []*policy.File{
		mustDecode(t, policy.DecodeConfiguration, extenders("{"+common+"enableHTTPS: true, httpTimeout: 2s}")),
		mustDecode(t, policy.DecodePolicy, policyHead+"predicates: []\npriorities: []\nextenders: [{"+common+"enableHttps: true, httpTimeout: 2000000000}]"),
	} {
		if got := f.Extenders(); len(got) != 1 || !reflect.DeepEqual(got[0], want) || len(f.Warnings()) > 0 {
			t.Errorf("%+v, warnings %v, want\n%+v", got, f.Warnings(), want)
		}
	}
}

func TestExtendersRefused(t *testing.T) {
	const x = "urlPrefix: 'http://x', filterVerb: f"
	for text, want := range map[string]string{
		"{filterVerb: f}":                                          "extenders[0].urlPrefix: Required value",
		"{urlPrefix: 'ftp://x'}":                                   "extenders[0].urlPrefix: Invalid value: must be http:// or https://, a host and a path",
		"{urlPrefix: 'http://me:secret@[x'}":                       "extenders[0].urlPrefix: Invalid value: must be http://",
		"{urlPrefix: '/x'}":                                        "extenders[0].urlPrefix: Invalid value",
		"{urlPrefix: 'http://x?y'}":                                "extenders[0].urlPrefix: Invalid value",
		"{" + x + ", prioritizeVerb: p}":                           "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
		"{" + x + ", weight: -1}":                                  "extenders[0].weight: Invalid value: -1: must not be negative",
		"{" + x + ", httpTimeout: -1s}":                            `extenders[0].httpTimeout: Invalid value: "-1s": must not be negative`,
		"{" + x + ", httpTimeout: 1}":                              "cannot unmarshal number",
		"{" + x + ", enableHttps: true}":                           `unknown field "extenders[0].enableHttps"`,
		"{" + x + ", tlsConfig: {insecure: true, caFile: a}}":      "extenders[0].tlsConfig.insecure: Forbidden",
		"{" + x + ", tlsConfig: {certFile: a}}":                    "extenders[0].tlsConfig: Forbidden: a certificate and its key go together",
		"{" + x + ", tlsConfig: {keyData: eA==}}":                  "extenders[0].tlsConfig: Forbidden: a certificate and its key go together",
		"{" + x + ", bindVerb: b}, {" + x + ", bindVerb: b}":       "only one extender can implement bind",
		"{" + x + ", managedResources: [{}]}":                      "extenders[0].managedResources[0].name: Invalid value",
		"{" + x + ", managedResources: [{name: cpu}]}":             `extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name`,
		"{" + x + ", managedResources: [{name: kubernetes.io/x}]}": "is an invalid extended resource name",
		"{" + x + ", managedResources: [{name: requests.a.b/x}]}":  "is an invalid extended resource name",
		"{" + x + ", managedResources: [{name: a.b/x}]}, {" + x + ", managedResources: [{name: a.b/x}]}": `extenders[1].managedResources[0].name: Invalid value: "a.b/x": duplicate extender managed resource name`,
	} {
		_, err := policy.DecodeConfiguration([]byte(extenders(text)))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

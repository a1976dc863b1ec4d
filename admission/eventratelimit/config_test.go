package eventratelimit_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission/eventratelimit"
)

const header = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"

func TestParse(t *testing.T) {
	got, err := eventratelimit.ParseConfig([]byte(header + `
limits:
- type: Server
  qps: 10
  burst: 50
- {type: SourceAndObject, qps: 1, burst: 2, cacheSize: 3}
`))
	want := eventratelimit.Config{Limits: []eventratelimit.Limit{
		{Type: eventratelimit.Server, QPS: 10, Burst: 50},
		{Type: eventratelimit.SourceAndObject, QPS: 1, Burst: 2, CacheSize: 3},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ParseConfig = %+v, %v, want %+v", got, err, want)
	}
}

func TestWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    `the configuration is "" of "", want "Configuration"`,
		"kind: Configuration\napiVersion: v1": `"Configuration" of "v1"`,
		header + "limit: []":                  `unknown field "limit"`,
		header + "limits: 7":                  "cannot unmarshal number",
		header + "limits:\n- {type: Server, qps: 5000000000, burst: 1}": "5000000000",
		header: "limits: Invalid value: null: must not be empty",
		header + "limits: [{type: Sever, qps: 1, burst: 1}]":                   `limits[0].type: Unsupported value: "Sever": supported values: "Namespace", "Server", "SourceAndObject", "User"`,
		header + "limits: [{type: Server, burst: 1}]":                          "limits[0].qps: Invalid value: 0: must be positive",
		header + "limits: [{type: Server, qps: 1, burst: -1}]":                 "limits[0].burst: Invalid value: -1: must be positive",
		header + "limits: [{type: User, qps: 1, burst: 1, cacheSize: -1}]":     "limits[0].cacheSize: Invalid value: -1: must not be negative",
		header + "limits: [{type: User, qps: 1, burst: 1}, {type: Namespace}]": "limits[1].burst: Invalid value: 0: must be positive",
	} {
		config, err := eventratelimit.ParseConfig([]byte(text))
		if err == nil {
			_, err = eventratelimit.New(config)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := eventratelimit.New(eventratelimit.Config{Limits: []eventratelimit.Limit{
		{Type: eventratelimit.Server, QPS: 1, Burst: 1, CacheSize: -1},
	}}); err != nil {
		t.Errorf("the cache of the server's one bucket: %v", err)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(header + "limits:\n- {type: Server, qps: 10, burst: 50}\n")
	f.Add(header + "limits:\n- {type: User, qps: -10, burst: 50, cacheSize: 1}\n")
	f.Add("&a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		config, err := eventratelimit.ParseConfig([]byte(text))
		if err != nil {
			return
		}
		p, err := eventratelimit.New(config)
		if err != nil {
			return
		}
		if err := p.Validate(t.Context(), event("a", "jane", "web")); err != nil {
			t.Errorf("the first event is refused: %v", err)
		}
	})
}

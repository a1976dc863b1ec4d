package crd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/crd/rules"
	"github.com/planekit/planekit/internal/used"
)

// TestCostOfDefinitions: no definition takes more than a second of processor time, whatever its rules and schemas are.
func TestCostOfDefinitions(t *testing.T) {
	compiler, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, compiler)
	rule := func(text string) string { return `{"rule":` + quote(text) + `}` }
	nested := func(n int, inner string) string {
		return strings.Repeat(`{"type":"object","properties":{"a":`, n) + inner + strings.Repeat("}}", n)
	}
	text := `{"type":"string","maxLength":10}`
	for i, c := range []struct{ name, schema string }{
		{"many rules", `{"type":"string","maxLength":10,"x-kubernetes-validations":[` + list(20_000, rule("self != 'x'")) + `]}`},
		{"many properties with rules", `{"type":"object","properties":{` + list(2500, `"f%d":{"type":"string","maxLength":10,"x-kubernetes-validations":[{"rule":"self!='x'"}]}`) + `}}`},
		{"rules over many properties", `{"type":"object","properties":{` + list(2500, `"f%d":`+text) + `},"x-kubernetes-validations":[` + list(3000, rule("self.f1 != 'x'")) + `]}`},
		{"nested rules over many properties", strings.Repeat(`{"type":"object","x-kubernetes-validations":[{"rule":"has(self.a)"}],"properties":{"a":`, 50) + `{"type":"object","properties":{` + list(2000, `"f%d":`+text) + `}}` + strings.Repeat("}}", 50)},
		{"maps in maps", `{"type":"string","maxLength":10,"x-kubernetes-validations":[` + list(500, rule(strings.Repeat("{'a':", 160)+"1"+strings.Repeat("}", 160)+" == {}")) + `]}`},
		{"undeclared", `{"type":"string","maxLength":10,"x-kubernetes-validations":[` + list(10_000, rule("x||y")) + `]}`},
		{"messages", `{"type":"string","maxLength":10,"x-kubernetes-validations":[` + list(10_000, `{"rule":"true","messageExpression":"'a'+'b'"}`) + `]}`},
		{"deep", nested(100, text)},
		{"wide", `{"type":"object","properties":{` + list(12_000, `"f%d":`+text) + `}}`},
		{"wrong", `{"type":"object","properties":{` + list(12_000, `"f%d":{"type":"x"}`) + `}}`},
		{"wide defaults", `{"type":"array","default":[` + list(100_000, `"a"`) + `],"items":` + text + `}`},
		{"enum", `{"type":"string","enum":[` + list(40_000, `"v%d"`) + `]}`},
		{"same enum", `{"type":"string","enum":[` + list(40_000, `"v"`) + `]}`},
		{"required", `{"type":"object","required":[` + list(40_000, `"v%d"`) + `]}`},
		{"anyOf", `{"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[` + list(10_000, `{"required":["a"]}`) + `]}`},
		{"patterns", `{"type":"object","properties":{` + list(10_000, `"f%d":{"type":"string","pattern":"(a{30}){30}"}`) + `}}`},
		{"list keys", `{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[` + list(8000, `"f%d"`) + `],"items":{"type":"object","required":[` + list(8000, `"f%d"`) + `],"properties":{` + list(8000, `"f%d":`+text) + `}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := *a
			a.t = t
			body := define(fmt.Sprint("costly", i), fmt.Sprint("Costly", i), `{"type":"object","properties":{"spec":`+c.schema+`}}`, "")
			if len(body) > 3<<20 {
				t.Fatalf("the definition has %d bytes", len(body))
			}
			before := used.Processor()
			got := a.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", body)
			took := used.Processor() - before
			t.Logf("%d bytes: %d in %v: %.150s", len(body), got.code, took, got.message())
			if took > time.Second*slowdown || got.code >= 500 {
				t.Errorf("a definition of %d bytes takes %v of processor time and is answered %d, want at most %v and less than 500", len(body), took, got.code, time.Second*slowdown)
			}
			if slowdown == 1 {
				peak := used.Peak(func() { a.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", body) })
				if most := 20*len(body) + 48<<20; peak > most {
					t.Errorf("a definition of %d bytes takes %d MB, want at most %d MB", len(body), peak>>20, most>>20)
				}
			}
		})
	}
}

func quote(text string) string { return fmt.Sprintf("%q", text) }

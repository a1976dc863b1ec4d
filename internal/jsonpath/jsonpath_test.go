package jsonpath_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/planekit/planekit/internal/jsonpath"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const object = `{"spec":{"replicas":3,"a.b":"dotted","ports":[{"port":80,"name":"http"},{"port":443,"name":"https"}]},
	"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Other","status":"False"}]}}`

func decode(t testing.TB) any {
	var v any
	if err := utiljson.Unmarshal([]byte(object), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func Example() {
	var v any
	_ = utiljson.Unmarshal([]byte(object), &v)
	path, err := jsonpath.Parse(`.status.conditions[?(@.type=="Ready")].status`)
	fmt.Println(path.Find(v)[0], err)
	// Output: True <nil>
}

func TestFind(t *testing.T) {
	v := decode(t)
	for text, want := range map[string]string{
		`.spec.replicas`:                      `[3]`,
		`{.spec.replicas}`:                    `[3]`,
		`spec.replicas`:                       `[3]`,
		`$.spec.replicas`:                     `[3]`,
		`.spec.a\.b`:                          `["dotted"]`,
		`.spec['a.b']`:                        `["dotted"]`,
		`.spec['replicas','a.b']`:             `[3,"dotted"]`,
		`.spec.ports[0].name`:                 `["http"]`,
		`.spec.ports[-1].name`:                `["https"]`,
		`.spec.ports[*].port`:                 `[80,443]`,
		`.spec.ports[0,1].port`:               `[80,443]`,
		`.spec.ports[1:].port`:                `[443]`,
		`.spec.ports[::2].port`:               `[80]`,
		`.spec.ports[7].port`:                 `null`,
		`..port`:                              `[80,443]`,
		`.spec.ports.*.name`:                  `["http","https"]`,
		`.spec.ports[?(@.port>100)].name`:     `["https"]`,
		`.spec.ports[?(@.name!='http')].port`: `[443]`,
		`.spec.ports[?(@.missing)].port`:      `null`,
		`.spec.ports[?(@.name)].port`:         `[80,443]`,
		`.spec.ports[?(@.port <= 80.0)].name`: `["http"]`,
		`.missing.deeper`:                     `null`,
		`.`:                                   "",
		`.status.conditions[?(@.status == "False")].type`: `["Other"]`,
	} {
		path, err := jsonpath.Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		data, _ := json.Marshal(path.Find(v))
		if want != "" && string(data) != want {
			t.Errorf("%s: %s, want %s", text, data, want)
		}
	}
	for _, text := range []string{`{.a`, `.a[`, `.a[x]`, `.a[?(@.b=="c"]`, `.a['b]`, `.a[0:1:0]`, `.a[?(=1)]`, `.a[1:2:3:4]`, `.a]`, `...`} {
		if _, err := jsonpath.Parse(text); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`.a.b[0]`, `..a[?(@.b=="c")]`, `['a','b'][1:2:3]`, `{.a\.b}`, `[?(@..x<1.5)]`} {
		f.Add(seed)
	}
	v := decode(f)
	f.Fuzz(func(_ *testing.T, text string) {
		if path, err := jsonpath.Parse(text); err == nil && len(text) < 40 {
			path.Find(v)
		}
	})
}

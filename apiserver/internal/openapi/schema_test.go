package openapi

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type base struct {
	Kind string `json:"kind,omitempty"`
}

type inner struct {
	Text string `json:"text"`
}

func (inner) SwaggerDoc() map[string]string {
	return map[string]string{"": "An inner.", "text": "A text."}
}

type outer struct {
	base      `json:",inline"`
	Meta      metav1.ObjectMeta `json:"metadata,omitempty"`
	Own       *inner            `json:"own"`
	Self      *outer            `json:"self,omitempty"`
	List      []inner           `json:"list,omitempty" patchStrategy:"merge" patchMergeKey:"text"`
	Map       map[string]int64  `json:"map"`
	Bytes     []byte            `json:"bytes,omitempty"`
	Any       any               `json:"any,omitempty"`
	Port      intstr.IntOrString
	Size      resource.Quantity `json:"size,omitempty"`
	When      metav1.MicroTime  `json:"when,omitempty"`
	Yes       bool              `json:"yes,omitempty"`
	Ratio     float64           `json:"ratio,omitempty"`
	Small     int32             `json:"small,omitempty"`
	Ignored   string            `json:"-"`
	unexposed string
}

func schemaOf(t *testing.T, v reflect.Type) (map[string]string, schemas) {
	t.Helper()
	s := schemas{}
	root := s[s.add(v)]
	properties := map[string]string{}
	for name, p := range root.Properties {
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		properties[name] = string(data)
	}
	return properties, s
}

func TestSchema(t *testing.T) {
	_ = outer{unexposed: ""}
	got, all := schemaOf(t, reflect.TypeFor[outer]())
	const ref = `"$ref":"#/components/schemas/com.github.planekit.planekit.apiserver.internal.openapi.`
	const k8s = `"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.`
	for name, want := range map[string]string{
		"kind":     `{"type":"string"}`,
		"metadata": `{"allOf":[{` + k8s + `apis.meta.v1.ObjectMeta"}],"default":{}}`,
		"own":      `{` + ref + `inner"}`,
		"self":     `{` + ref + `outer"}`,
		"list":     `{"type":"array","items":{"allOf":[{` + ref + `inner"}],"default":{}},"x-kubernetes-patch-strategy":"merge","x-kubernetes-patch-merge-key":"text"}`,
		"map":      `{"type":"object","additionalProperties":{"type":"integer","format":"int64","default":0}}`,
		"bytes":    `{"type":"string","format":"byte"}`,
		"any":      `{}`,
		"Port":     `{` + k8s + `util.intstr.IntOrString"}`,
		"size":     `{` + k8s + `api.resource.Quantity"}`,
		"when":     `{` + k8s + `apis.meta.v1.MicroTime"}`,
		"yes":      `{"type":"boolean"}`,
		"ratio":    `{"type":"number","format":"double"}`,
		"small":    `{"type":"integer","format":"int32"}`,
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more than wanted: %v", got)
	}
	const here = "com.github.planekit.planekit.apiserver.internal.openapi."
	if required := all[here+"outer"].Required; !reflect.DeepEqual(required, []string{"own", "map", "Port"}) {
		t.Errorf("required: %v", required)
	}
	if in := all[here+"inner"]; in.Description != "An inner." || in.Properties["text"].Description != "A text." {
		t.Errorf("inner: %+v", in)
	}
	if port := all["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]; port.Format != "int-or-string" || len(port.Properties) > 0 {
		t.Errorf("port: %+v", port)
	}
	if when := all["io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"]; when.Type != "string" || when.Format != "date-time" {
		t.Errorf("when: %+v", when)
	}
}

// embedding has the methods of what it embeds, which speak for that and not
// for it.
type embedding struct {
	inner `json:",inline"`
	More  string `json:"more,omitempty"`
}

func TestPromotedMethodsSpeakForTheirOwnType(t *testing.T) {
	s := schemas{}
	got := s[s.add(reflect.TypeFor[embedding]())]
	if got.Description != "" || got.Properties["text"] == nil || got.Properties["text"].Description != "A text." || got.Properties["more"] == nil {
		t.Errorf(`the schema of embedding = %+v, want no description and the properties text, "A text.", and more`, got)
	}
	type meta struct{ metav1.ObjectMeta }
	if name := modelName(reflect.TypeFor[meta]()); name == modelName(reflect.TypeFor[metav1.ObjectMeta]()) {
		t.Errorf("named %s like what it embeds", name)
	}
}

// listOf is a list as package kind defines them.
type listOf[V any, T interface{ *V }] struct{ Items []V }

// TestModelNameOfList: a generic list is named after its objects.
func TestModelNameOfList(t *testing.T) {
	want := modelName(reflect.TypeFor[inner]()) + "List"
	if name := modelName(reflect.TypeFor[listOf[inner, *inner]]()); name != want {
		t.Errorf("the schema is named %s, want %s", name, want)
	}
}

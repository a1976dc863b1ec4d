package apiextensions_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/kinds/apiextensions"
)

const sample = `{"metadata":{"name":"lamps.example.com"},"spec":{"group":"example.com","names":{"plural":"lamps","shortNames":["l"],"kind":"Lamp"},` +
	`"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{` +
	`"a":{"type":"array","items":{"type":"string"}},"b":{"type":"object","additionalProperties":{"type":"string","default":"x","enum":["x",null]}},` +
	`"c":{"type":"object","additionalProperties":false}}}}}],"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":` +
	`{"namespace":"n","name":"s","port":443},"caBundle":"YQ=="},"conversionReviewVersions":["v1"]}}},` +
	`"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":["v1"]}}`

func Example() {
	var d apiextensions.CustomResourceDefinition
	err := json.Unmarshal([]byte(sample), &d)
	schema := d.Spec.Versions[0].Schema.OpenAPIV3Schema
	fmt.Println(d.Spec.Names.Kind, schema.Properties["a"].Items.Schema.Type, err)
	// Output: Lamp string <nil>
}

// TestRoundTrip: what is decoded is encoded as it was.
func TestRoundTrip(t *testing.T) {
	var d apiextensions.CustomResourceDefinition
	if err := json.Unmarshal([]byte(sample), &d); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(&d)
	if err != nil || string(data) != sample {
		t.Errorf("Marshal of the sample = %v\ngot  %s\nwant %s", err, data, sample)
	}
}

// TestDeepCopy changes every part of a copy that may be changed.
func TestDeepCopy(t *testing.T) {
	var d, same apiextensions.CustomResourceDefinition
	for _, to := range []*apiextensions.CustomResourceDefinition{&d, &same} {
		if err := json.Unmarshal([]byte(sample), to); err != nil {
			t.Fatal(err)
		}
	}
	list := &apiextensions.CustomResourceDefinitionList{Items: []apiextensions.CustomResourceDefinition{d}}
	copied := list.DeepCopyObject().(*apiextensions.CustomResourceDefinitionList)
	if !reflect.DeepEqual(list, copied) {
		t.Errorf("the copy is %v", copied)
	}
	c := &copied.Items[0]
	c.Spec.Names.ShortNames[0], c.Spec.Versions[0].Name, c.Spec.Conversion.Webhook.ClientConfig.CABundle[0] = "x", "v2", 'b'
	*c.Spec.Conversion.Webhook.ClientConfig.Service.Port, c.Status.StoredVersions[0], c.Spec.Versions[0].Schema.OpenAPIV3Schema = 1, "v0", nil
	if !reflect.DeepEqual(d, same) {
		t.Errorf("it became %v", d)
	}
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":[{}],"dependencies":{"a":["b"]},"additionalItems":true}}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, again apiextensions.CustomResourceDefinition
		if json.Unmarshal(data, &d) != nil {
			return
		}
		text, err := json.Marshal(&d)
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if err != nil {
			t.Errorf("Marshal of %q as a definition = %s, want JSON that Unmarshal takes: %v", data, text, err)
		}
	})
}

// TestPack: a packed definition is encoded as it was, and unpacked it is the same. Without being decoded, a schema is
// packed to the same.
func TestPack(t *testing.T) {
	large := strings.Replace(sample, `"items":{"type":"string"}`, `"items":{"type":"string","default":"<\u003e>","description":"`+strings.Repeat("word ", 1000)+`"}`, 1)
	for _, text := range []string{sample, large, strings.Replace(sample, `"schema":{"openAPIV3Schema"`, `"schema":{"other"`, 1)} {
		var d, packed, same apiextensions.CustomResourceDefinition
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(&d)
		if err != nil {
			t.Fatal(err)
		}
		if err := packed.DecodePacked(want); err != nil {
			t.Fatal(err)
		}
		same = *d.DeepCopy()
		if same.Pack(); !reflect.DeepEqual(packed, same) || same.Spec.Versions[0].Schema.OpenAPIV3Schema != nil {
			t.Errorf("packed to %v and %v", packed.Spec, same.Spec)
		}
		if got, err := json.Marshal(&packed); err != nil || string(got) != string(want) {
			t.Errorf("Marshal of the packed definition = %v\ngot  %s\nwant %s", err, got, want)
		}
		if got, err := packed.Unpacked(); err != nil || !reflect.DeepEqual(*got, d) {
			t.Errorf("%v: unpacked to %v", err, got)
		}
	}
}

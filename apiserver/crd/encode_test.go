package crd

import (
	"bytes"
	"encoding/json"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzEncode writes any fields as encoding/json does.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{
		`{"spec":{"a":[1,-2,3.5,1e300,true,null,"x",{"":{}},[]],"b":"<&>\"\\\u0000\u2028é\ud800"}}`, `{"spec":null}`, `{"a b":{"é":1},"metadata":{"name":"a"},"kind":"K","apiVersion":"g/v"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var fields map[string]any
		if err := utiljson.Unmarshal(text, &fields); err != nil || fields == nil {
			return
		}
		got, err := appendValue(nil, fields)
		want, wantErr := json.Marshal(fields)
		if !bytes.Equal(got, want) || (err != nil) != (wantErr != nil) {
			t.Fatalf("%s, %v; encoding/json writes %s, %v", got, err, want, wantErr)
		}
		o := &Object{}
		if json.Unmarshal(text, o) != nil {
			return
		}
		once, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(json.RawMessage(once))
		if err != nil || !bytes.Equal(once, again) {
			t.Fatalf("%s is not as encoding/json writes it: %s, %v", once, again, err)
		}
	})
}

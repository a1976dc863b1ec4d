package patched_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/patched"
	"github.com/planekit/planekit/internal/jsonpatch"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func request() *admission.Request {
	return &admission.Request{
		Kind:   admission.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "u"}},
	}
}

func Example() {
	const object = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "b"}}`
	operations, _, err := jsonpatch.Decode(context.Background(), []byte(`[
		{"op": "add", "path": "/data", "value": {"key": "value"}},
		{"op": "add", "path": "/metadata/uid", "value": "other"}
	]`), patched.MaxOperations, patched.MaxDepth)
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := patched.Apply(context.Background(), operations, []byte(object))
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := patched.Decode(context.Background(), data, request())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.(*corev1.ConfigMap).Data, result.(*corev1.ConfigMap).UID)
	// Output: map[key:value] u
}

func TestRefused(t *testing.T) {
	for data, want := range map[string]string{
		`{"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "a"}}`: "makes a /v1, Kind=Secret of a /v1, Kind=ConfigMap",
		`{"data": 5}`: "decode the patched object",
	} {
		if _, err := patched.Decode(t.Context(), []byte(data), request()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Decode(%s) = %v, want an error with %q", data, err, want)
		}
	}
	large := []byte(`{"data": {"a": "` + strings.Repeat("x", patched.MaxObject) + `"}}`)
	if err := patched.Fits(large, 10); err == nil {
		t.Error("a large object fits")
	}
	if err := patched.Fits(large, len(large)); err != nil {
		t.Errorf("an object that was large before: %v", err)
	}
	var d patched.Decoder
	many := `{"data": {` + strings.TrimSuffix(strings.Repeat(`"a":"",`, 200_000), ",") + `}}`
	if err := d.Bound(t.Context(), []byte(many), request()); err == nil {
		t.Error("an object of many values is decoded")
	}
}

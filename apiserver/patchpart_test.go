package apiserver

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/internal/patching"
	"github.com/planekit/planekit/apiserver/internal/wire"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// somePatches touch one part of a pod, several, all, none, and what is none.
var somePatches = []string{
	`{}`,
	`{"metadata":{"labels":{"a":"b"}}}`,
	`{"metadata":{"labels":null,"annotations":{"x":"<&>"}}}`,
	`{"metadata":null}`,
	`{"metadata":{"ownerReferences":[{"uid":"1","name":"n"}],"finalizers":["a/b"]}}`,
	`{"metadata":{"$patch":"replace","name":"p"}}`,
	`{"metadata":{"$retainKeys":["name"],"name":"p"}}`,
	`{"metadata":{"managedFields":[]}}`,
	`{"spec":{"containers":[{"name":"c","image":"2"}]}}`,
	`{"spec":{"containers":[{"name":"d","$patch":"delete"}],"nodeName":"n"}}`,
	`{"spec":null,"status":{"phase":"Running"}}`,
	`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
	`{"$patch":"replace","metadata":{"name":"p"}}`,
	`{"$setElementOrder/containers":[{"name":"c"}],"spec":{}}`,
	`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}`,
	`{"kind":"Node"}`,
	`{"unknown":1,"metadata":{"labels":{"a":"b"}}}`,
	`{"spec":{"unknown":1}}`,
	`{"spec":7}`,
	`{"status":{"phase":"x"},"status":{"phase":"y"}}`,
	`[]`, `null`, `7`, `{`,
}

// TestPartIsAsGoodAsTheWhole patches random pods by the part that is touched and
// as a whole: the results and the refusals are the same.
func TestPartIsAsGoodAsTheWhole(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := wireKind(t, podResource())
	parts := 0
	for range 300 {
		pod := randomPod(random)
		pod.Spec.Containers[0].Name = "c"
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "d"})
		pod.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "False"}, {Type: "Initialized", Status: "True"}}
		pod.GetObjectKind().SetGroupVersionKind(k.gvk)
		patch := []byte(somePatches[random.IntN(len(somePatches))])
		media := []types.PatchType{types.MergePatchType, types.StrategicMergePatchType}[random.IntN(2)]
		before := pod.DeepCopy()
		whole, wholeErr := patchWith(k, media, patch, pod, nil)
		p, ok := patching.PartOf(media, patch, pod)
		if !ok {
			continue
		}
		parts++
		some, someErr := patchWith(k, media, patch, pod, p)
		if !apiequality.Semantic.DeepEqual(before, pod) {
			t.Fatalf("%s changed the pod it was for", patch)
		}
		if (wholeErr == nil) != (someErr == nil) || wholeErr == nil && !sameJSON(t, whole, some) {
			t.Fatalf("%s %s of %v\nmakes by part %v, %v\nas a whole %v, %v", media, patch, before, some, someErr, whole, wholeErr)
		}
	}
	if parts < 100 {
		t.Errorf("only %d of 300 patches were for a part", parts)
	}
}

// patchWith applies a patch to the part p of obj, or to the whole of it.
func patchWith(k *servedKind, media types.PatchType, patch []byte, obj runtime.Object, p *patching.Part) (runtime.Object, error) {
	if p == nil {
		original, err := k.codec.Encode(wire.JSON, obj)
		if err != nil {
			return nil, err
		}
		p = &patching.Part{Original: original, Rest: k.New()}
	}
	result, err := patching.Apply(context.Background(), wire.NewCodec(), media, p.Original, patch, obj)
	if err != nil {
		return nil, err
	}
	unknown, err := k.codec.DecodeBody(context.Background(), result, wire.JSON, "Strict", k.gvk, p.Rest)
	if len(unknown) > 0 {
		err = wire.StrictError(k.gvk, unknown)
	}
	return p.Rest, err
}

func sameJSON(t *testing.T, a, b runtime.Object) bool {
	t.Helper()
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return string(x) == string(y)
}

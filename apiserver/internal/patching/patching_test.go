package patching

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/internal/wire"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "y"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func text(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestApply(t *testing.T) {
	const conditions = `{"status":{"conditions":[{"type":"Other","status":"False"}]}}`
	for _, test := range []struct {
		media types.PatchType
		patch string
		check func(*corev1.Pod) bool // nil if it is refused
		code  int32
	}{
		{types.MergePatchType, `{"metadata":{"labels":{"x":null,"n":"m"}}}`, func(p *corev1.Pod) bool { return len(p.Labels) == 1 && p.Labels["n"] == "m" }, 0},
		{types.MergePatchType, conditions, func(p *corev1.Pod) bool { return len(p.Status.Conditions) == 1 }, 0},
		{types.StrategicMergePatchType, conditions, func(p *corev1.Pod) bool { return len(p.Status.Conditions) == 2 }, 0},
		{types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"c","image":"other"}]}}`,
			func(p *corev1.Pod) bool {
				return len(p.Spec.Containers) == 1 && p.Spec.Containers[0].Image == "other"
			}, 0},
		{types.JSONPatchType, `[{"op":"test","path":"/spec/containers/0/name","value":"c"},{"op":"replace","path":"/spec/containers/0/image","value":"other"}]`,
			func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == "other" }, 0},
		{types.JSONPatchType, `[{"op":"test","path":"/spec/containers/0/name","value":"d"}]`, nil, 422},
		{types.JSONPatchType, `[{"op":"remove","path":"/spec/none"}]`, nil, 422},
		{types.JSONPatchType, `[` + strings.Repeat(`{"op":"remove","path":"/a"},`, maxPatchOperations) + `{"op":"remove","path":"/a"}]`, nil, 413},
		{types.JSONPatchType, `{"op":"remove"}`, nil, 400},
		{types.JSONPatchType, `[`, nil, 400},
		{types.MergePatchType, `[]`, nil, 400},
		{types.MergePatchType, ``, nil, 400},
		{types.MergePatchType, `{"a":`, nil, 400},
		{types.MergePatchType, strings.Repeat(`{"a":`, wire.MaxDepth+1) + `1` + strings.Repeat(`}`, wire.MaxDepth+1), nil, 400},
		{types.StrategicMergePatchType, `{"spec":`, nil, 400},
		{types.StrategicMergePatchType, `{"spec":{"containers":[{"image":"no name"}]}}`, nil, 422},
	} {
		result, err := Apply(t.Context(), wire.NewCodec(), test.media, text(t, pod()), []byte(test.patch), &corev1.Pod{})
		if test.check == nil {
			status, ok := errors.AsType[*apierrors.StatusError](err)
			if !ok || status.Status().Code != test.code {
				t.Errorf("%s %.60s: %v, want %d", test.media, test.patch, err, test.code)
			}
			continue
		}
		got := &corev1.Pod{}
		if err == nil {
			err = json.Unmarshal(result, got)
		}
		if err != nil || !test.check(got) {
			t.Errorf("Apply(%s, %s) = %s, %v, want a pod that the check of the case accepts", test.media, test.patch, result, err)
		}
	}
}

// TestClientGoesAway: the end of the request is no error of the patch.
func TestClientGoesAway(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	large := `{"data":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`
	_, err := Apply(gone, wire.NewCodec(), types.MergePatchType, []byte(large), []byte(large), &corev1.ConfigMap{})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := Error(context.Canceled); !errors.Is(got, context.Canceled) {
		t.Error(got)
	}
}

// TestManyPairs: a strategic merge patch that would compare too many items of lists is refused.
func TestManyPairs(t *testing.T) {
	many := &corev1.Pod{TypeMeta: pod().TypeMeta}
	for range 2000 {
		many.Spec.Containers = append(many.Spec.Containers, corev1.Container{Name: strings.Repeat("c", 40)})
	}
	_, err := Apply(t.Context(), wire.NewCodec(), types.StrategicMergePatchType, text(t, many), text(t, many), &corev1.Pod{})
	if !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("Apply of a strategic patch with 2000 containers of one name has the error %v, want RequestEntityTooLarge", err)
	}
}

// TestPartOf: a part that is patched and put back is the whole object, patched.
func TestPartOf(t *testing.T) {
	for _, test := range []struct {
		patch string
		parts bool
	}{
		{`{"metadata":{"labels":{"x":"z"}}}`, true},
		{`{"status":{"phase":"Failed"}}`, true},
		{`{"metadata":{"labels":null},"status":{"conditions":null}}`, true},
		{`{"spec":{"nodeName":"n"},"none":1}`, true},
		{`{}`, true},
		{`{"$patch":"replace"}`, false},
		{`[]`, false},
		{`{"a":`, false},
	} {
		for _, media := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
			view := pod()
			part, ok := PartOf(media, []byte(test.patch), view)
			if ok != test.parts {
				t.Errorf("%s: taken apart: %v", test.patch, ok)
			}
			if !reflect.DeepEqual(view, pod()) {
				t.Errorf("%s changed the object", test.patch)
			}
			if !ok {
				continue
			}
			some, err1 := Apply(t.Context(), wire.NewCodec(), media, part.Original, []byte(test.patch), &corev1.Pod{})
			whole, err2 := Apply(t.Context(), wire.NewCodec(), media, text(t, view), []byte(test.patch), &corev1.Pod{})
			if err1 != nil || err2 != nil {
				t.Errorf("Apply(%s, %s) has the errors %v on the part and %v on the whole object, want none", media, test.patch, err1, err2)
				continue
			}
			got, want := part.Rest, &corev1.Pod{}
			if err := errors.Join(json.Unmarshal(some, got), json.Unmarshal(whole, want)); err != nil || !reflect.DeepEqual(text(t, got), text(t, want)) {
				t.Errorf("%s: %s, want %s (%v)", test.patch, text(t, got), text(t, want), err)
			}
		}
	}
	if _, ok := PartOf(types.JSONPatchType, []byte(`[]`), pod()); ok {
		t.Error("a JSON patch was taken apart")
	}
}

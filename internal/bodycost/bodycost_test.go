package bodycost_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/internal/jsonscan"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var limits = bodycost.Limits{Depth: 100, Bytes: 1 << 30}

// nested is a recursive type.
type nested struct {
	Inner *nested           `json:"inner,omitempty" protobuf:"bytes,1,opt,name=inner"`
	Many  []nested          `json:"many,omitempty" protobuf:"bytes,2,rep,name=many"`
	Named map[string]nested `json:"named,omitempty" protobuf:"bytes,3,rep,name=named"`
}

// TestEstimates compares estimates with the memory that decoders need.
func TestEstimates(t *testing.T) {
	const many = 20_000
	repeat := func(s string) string { return strings.TrimSuffix(strings.Repeat(s+",", many), ",") }
	for name, c := range map[string]struct {
		into any
		text string
	}{
		"containers":      {&corev1.Pod{}, `{"spec":{"containers":[` + repeat(`{}`) + `]}}`},
		"nulls":           {&corev1.Pod{}, `{"spec":{"containers":[` + repeat(`null`) + `]}}`},
		"inline pointers": {&corev1.Pod{}, `{"spec":{"volumes":[` + repeat(`{"emptyDir":{}}`) + `]}}`},
		"rules":           {&rbacv1.Role{}, `{"rules":[` + repeat(`{"verbs":["",""]}`) + `]}`},
		"owners":          {&appsv1.Deployment{}, `{"metadata":{"ownerReferences":[` + repeat(`{}`) + `]}}`},
		"any":             {&map[string]any{}, `{"a":[` + repeat(`{}`) + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			types := &bodycost.Types{}
			cost, err := types.JSON(context.Background(), []byte(c.text), reflect.TypeOf(c.into), limits)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			if err := json.Unmarshal([]byte(c.text), c.into); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(c.into)
			took := int(after.HeapAlloc) - int(before.HeapAlloc)
			if cost.Bytes < took*2/3 || cost.Bytes > took*3/2+4096 {
				t.Errorf("estimate %d, it took %d", cost.Bytes, took)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	types := &bodycost.Types{}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	small := bodycost.Limits{Depth: 10, Bytes: 1 << 16, Values: 3000}
	inner := func(levels int) (message []byte) {
		for range levels {
			if len(message) > 120 {
				break
			}
			message = append([]byte{1<<3 | 2, byte(len(message))}, message...)
		}
		return message
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		into any
		json string
		raw  []byte
		want error
	}{
		"deep":               {nil, nested{}, strings.Repeat(`{"inner":`, 20) + `{}` + strings.Repeat(`}`, 20), nil, jsonscan.ErrTooDeep},
		"deep and unknown":   {nil, nested{}, `{"x":` + strings.Repeat(`[`, 20) + strings.Repeat(`]`, 20) + `}`, nil, jsonscan.ErrTooDeep},
		"deep message":       {nil, nested{}, "", inner(20), jsonscan.ErrTooDeep},
		"message":            {nil, nested{}, "", inner(9), nil},
		"many messages":      {nil, corev1.PodSpec{}, "", []byte(strings.Repeat("\x12\x00", 1000)), bodycost.ErrTooMuch},
		"many entries":       {nil, nested{}, "", []byte(strings.Repeat("\x1a\x00", 4000)), bodycost.ErrTooMuch},
		"nested in entries":  {nil, nested{}, "", []byte("\x1a\x04\x12\x02\x0a\x00"), nil},
		"cut off":            {nil, corev1.PodSpec{}, "", []byte("\x12\x05"), bodycost.ErrMalformed},
		"malformed":          {nil, corev1.PodSpec{}, `{"containers":`, nil, jsonscan.ErrMalformed},
		"many containers":    {nil, corev1.PodSpec{}, `{"containers":[` + strings.Repeat("{},", 1000) + `{}]}`, nil, bodycost.ErrTooMuch},
		"many and unknown":   {nil, corev1.PodSpec{}, `{"contained":[` + strings.Repeat("{},", 1000) + `{}]}`, nil, nil},
		"not a list":         {nil, corev1.PodSpec{}, `{"containers":{"a":[` + strings.Repeat("{},", 1000) + `{}]}}`, nil, nil},
		"many values":        {nil, corev1.PodSpec{}, `{"hostAliases":[` + strings.Repeat("null,", 3000) + `null]}`, nil, bodycost.ErrTooMuch},
		"long key":           {nil, nested{}, `{"named":{"` + strings.Repeat("x", 2000) + `":{}}}`, nil, bodycost.ErrTooMuch},
		"long key of a text": {nil, corev1.ConfigMap{}, `{"data":{"` + strings.Repeat("x", 2000) + `":""}}`, nil, nil},
		"ended":              {ended, corev1.PodSpec{}, "", []byte(strings.Repeat("\x00\x00", 5000)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			var err error
			if c.raw != nil {
				_, err = types.Protobuf(ctx, c.raw, reflect.TypeOf(c.into), small)
			} else {
				_, err = types.JSON(ctx, []byte(c.json), reflect.TypeOf(c.into), small)
			}
			if name == "ended" && err != nil {
				return
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestMerged counts the items that a strategic merge patch searches one by one.
func TestMerged(t *testing.T) {
	types := &bodycost.Types{}
	for text, want := range map[string]int{
		`{"spec":{"containers":[{"args":["a","b"]},{"env":[{},{}]}]}}`:                      4,
		`{"spec":{"tolerations":[{},{}],"$setElementOrder/containers":[{"name":"a"}]}}`:     1,
		`{"metadata":{"finalizers":["a","b"],"$deleteFromPrimitiveList/finalizers":["c"]}}`: 3,
	} {
		cost, err := types.JSON(context.Background(), []byte(text), reflect.TypeFor[*corev1.Pod](), limits)
		if err != nil || cost.Merged != want {
			t.Errorf("%s: %d, %v, want %d", text, cost.Merged, err, want)
		}
	}
}

// FuzzProtobuf: a message that apimachinery's decoder accepts can be estimated.
func FuzzProtobuf(f *testing.F) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, NodeSelector: map[string]string{"a": "b"}}}
	data, err := pod.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	types := &bodycost.Types{}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, ours := types.Protobuf(context.Background(), data, reflect.TypeFor[*corev1.Pod](), limits)
		if err := (&corev1.Pod{}).Unmarshal(data); err == nil && ours != nil && !errors.Is(ours, jsonscan.ErrTooDeep) && !errors.Is(ours, bodycost.ErrMalformed) {
			t.Errorf("Protobuf(%q) = %v, want nil, ErrTooDeep or ErrMalformed, as Unmarshal takes it", data, ours)
		}
	})
}

// FuzzJSON: a text that can be decoded can be estimated.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"name":"c","env":[{}]}],"volumes":[{"emptyDir":{}}],"nodeSelector":{"a":"b"}}}`))
	types := &bodycost.Types{}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, ours := types.JSON(context.Background(), data, reflect.TypeFor[*corev1.Pod](), limits)
		if err := json.Unmarshal(data, &corev1.Pod{}); err == nil && ours != nil && !errors.Is(ours, jsonscan.ErrTooDeep) {
			t.Errorf("JSON(%q) = %v, want nil or ErrTooDeep, as Unmarshal takes it", data, ours)
		}
		if err := (&unstructured.Unstructured{}).UnmarshalJSON(data); err == nil {
			if _, err := bodycost.Dynamic(context.Background(), data, limits); err != nil && !errors.Is(err, jsonscan.ErrTooDeep) {
				t.Errorf("Dynamic(%q) = %v, want nil or ErrTooDeep, as UnmarshalJSON takes it", data, err)
			}
		}
	})
}

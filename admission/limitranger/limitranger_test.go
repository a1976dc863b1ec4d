package limitranger_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/limitranger"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ranges are a copy of limit ranges, all of namespace default.
type ranges []*corev1.LimitRange

func (r ranges) Get(namespace string) iter.Seq[*corev1.LimitRange] {
	if namespace != "default" {
		return slices.Values(ranges(nil))
	}
	return slices.Values(r)
}

func (r ranges) lookup(_ context.Context, namespace string) ([]*corev1.LimitRange, error) {
	return slices.Collect(r.Get(namespace)), nil
}

func amounts(list ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(list); i += 2 {
		out[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
	}
	return out
}

func limitRange(items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func container(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func sidecar(c corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func pod(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{Containers: containers}}
}

func create(object any) *admission.Request {
	resource := "pods"
	if _, ok := object.(*corev1.PersistentVolumeClaim); ok {
		resource = "persistentvolumeclaims"
	}
	return &admission.Request{Operation: admission.Create, Namespace: "default", Name: "web", Object: object,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: resource}}
}

func newPlugin(t testing.TB, r ...*corev1.LimitRange) *limitranger.Plugin {
	p, err := limitranger.New(limitranger.Config{ByNamespace: ranges(r), Lookup: ranges(nil).lookup})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func Example() {
	stored := ranges{limitRange(corev1.LimitRangeItem{
		Type: corev1.LimitTypeContainer, Default: amounts("cpu", "500m"), DefaultRequest: amounts("cpu", "100m"), Min: amounts("cpu", "100m"),
	})}
	limits, err := limitranger.New(limitranger.Config{ByNamespace: stored, Lookup: stored.lookup})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.Chain{Mutators: []admission.Mutator{limits}, Validators: []admission.Validator{limits}}
	for _, r := range []*admission.Request{create(pod(container("c", nil, nil))), create(pod(container("c", amounts("cpu", "50m"), nil)))} {
		fmt.Println(chain.Mutate(context.Background(), r))
		fmt.Println(r.Object.(*corev1.Pod).Annotations[limitranger.Annotation])
		fmt.Println(chain.Validate(context.Background(), r))
	}
	// Output:
	// <nil>
	// LimitRanger plugin set: cpu request for container c; cpu limit for container c
	// <nil>
	// <nil>
	// LimitRanger plugin set: cpu limit for container c
	// pods "web" is forbidden: minimum cpu usage per Container is 100m, but request is 50m
}

func TestDefaults(t *testing.T) {
	p := newPlugin(t, limitRange(
		corev1.LimitRangeItem{Type: corev1.LimitTypePod, Default: amounts("cpu", "9")},
		corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: amounts("cpu", "1", "memory", "2Gi"), DefaultRequest: amounts("cpu", "100m", "memory", "1Gi")},
	))
	made := pod(container("a", nil, nil), container("b", amounts("cpu", "0"), amounts("cpu", "3")))
	made.Spec.InitContainers = []corev1.Container{container("i", nil, amounts("memory", "5Gi"))}
	made.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
	if err := p.Mutate(t.Context(), create(made)); err != nil {
		t.Fatal(err)
	}
	const want = "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; " +
		"memory request for container b; memory limit for container b; cpu, memory request for init container i; cpu limit for init container i"
	if got := made.Annotations[limitranger.Annotation]; got != want {
		t.Errorf("annotation %q\nwant %q", got, want)
	}
	for _, c := range slices.Concat(made.Spec.Containers, made.Spec.InitContainers) {
		if len(c.Resources.Requests) != 2 || len(c.Resources.Limits) != 2 {
			t.Errorf("%s has %v", c.Name, c.Resources)
		}
	}
	if b := made.Spec.Containers[1].Resources; !b.Requests.Cpu().IsZero() || b.Limits.Cpu().String() != "3" || b.Limits.Memory().String() != "2Gi" {
		t.Errorf("b has %v", b)
	}
	if len(made.Spec.EphemeralContainers[0].Resources.Requests) > 0 {
		t.Error("an ephemeral container was given a size, which it may not have")
	}
}

func TestLimits(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", "5Gi")}}}
	withInit := func(p *corev1.Pod, init ...corev1.Container) *corev1.Pod {
		p.Spec.InitContainers = init
		return p
	}
	whole := pod(container("c", amounts("cpu", "1"), amounts("cpu", "1")))
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", "4"), Limits: amounts("cpu", "4")}
	for name, test := range map[string]struct {
		object any
		item   corev1.LimitRangeItem
		want   string
	}{
		"within": {pod(container("c", amounts("cpu", "1"), amounts("cpu", "2"))),
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts("cpu", "1"), Max: amounts("cpu", "2"), MaxLimitRequestRatio: amounts("cpu", "2")}, ""},
		"too little, twice": {pod(container("c", amounts("cpu", "50m", "memory", "1Mi"), nil)),
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts("cpu", "100m", "memory", "1Gi")},
			"[minimum cpu usage per Container is 100m, but request is 50m, minimum memory usage per Container is 1Gi, but request is 1Mi]"},
		"nothing requested": {pod(container("c", nil, nil)),
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts("cpu", "1")}, "minimum cpu usage per Container is 1.  No request is specified"},
		"limit too little": {pod(container("c", amounts("cpu", "2"), amounts("cpu", "1"))),
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts("cpu", "2")}, "minimum cpu usage per Container is 2, but limit is 1"},
		"no limit": {pod(container("c", amounts("cpu", "1"), nil)),
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: amounts("cpu", "1")}, "maximum cpu usage per Container is 1.  No limit is specified"},
		"limit too much": {pod(container("c", nil, amounts("cpu", "3"))),
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: amounts("cpu", "2")}, "maximum cpu usage per Container is 2, but limit is 3"},
		"ratio": {pod(container("c", amounts("cpu", "1"), amounts("cpu", "3"))),
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, MaxLimitRequestRatio: amounts("cpu", "2")}, "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"},
		"ratio of nothing": {pod(container("c", nil, amounts("cpu", "3"))),
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, MaxLimitRequestRatio: amounts("cpu", "2")}, "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		"init container": {withInit(pod(container("c", amounts("cpu", "1"), nil)), container("i", amounts("cpu", "10m"), nil)),
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts("cpu", "1")}, "minimum cpu usage per Container is 1, but request is 10m"},
		"pod: a large init container": {withInit(pod(container("c", nil, amounts("cpu", "1"))), container("i", nil, amounts("cpu", "5"))),
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("cpu", "4")}, "maximum cpu usage per Pod is 4, but limit is 5"},
		"pod: sidecars before an init container": {withInit(pod(container("c", nil, amounts("cpu", "1"))), sidecar(container("s", nil, amounts("cpu", "2"))), container("i", nil, amounts("cpu", "3"))),
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("cpu", "4")}, "maximum cpu usage per Pod is 4, but limit is 5"},
		"pod: sidecars after it do not add": {withInit(pod(container("c", nil, amounts("cpu", "1"))), container("i", nil, amounts("cpu", "3")), sidecar(container("s", nil, amounts("cpu", "2")))),
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("cpu", "3")}, ""},
		"pod: as a whole": {whole, corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("cpu", "3")}, "maximum cpu usage per Pod is 3, but limit is 4"},
		"claim too small": {claim, corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: amounts("storage", "6Gi")}, "minimum storage usage per PersistentVolumeClaim is 6Gi, but request is 5Gi"},
		"claim too large": {claim, corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Max: amounts("storage", "4Gi")}, "maximum storage usage per PersistentVolumeClaim is 4Gi, but request is 5Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			err := newPlugin(t, limitRange(test.item)).Validate(t.Context(), create(test.object))
			var forbidden *admission.ForbiddenError
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (!errors.As(err, &forbidden) || forbidden.Err.Error() != test.want):
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// Only what gives sizes is looked at.
func TestConcerns(t *testing.T) {
	p := newPlugin(t, limitRange(
		corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "2")},
		corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: amounts("storage", "1Gi")}))
	going := pod()
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for _, test := range []struct {
		operation   admission.Operation
		subresource string
		object, old any
		refused     bool
	}{
		{admission.Create, "", pod(container("c", nil, nil)), nil, true},
		{admission.Update, "", pod(container("c", nil, nil)), pod(), false},
		{admission.Update, "status", pod(container("c", nil, nil)), pod(), false},
		{admission.Update, "resize", pod(container("c", nil, nil)), pod(), true},
		{admission.Update, "resize", pod(container("c", nil, nil)), going, false},
		{admission.Create, "binding", pod(container("c", nil, nil)), nil, false},
		{admission.Delete, "", nil, pod(), false},
		{admission.Update, "", &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}, true},
		{admission.Update, "status", &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}, false},
	} {
		r := create(test.object)
		r.Operation, r.Subresource, r.OldObject = test.operation, test.subresource, test.old
		if err := p.Validate(t.Context(), r); (err != nil) != test.refused {
			t.Errorf("Validate(%s of %T, subresource %q) = %v, want an error: %t",
				test.operation, test.object, test.subresource, err, test.refused)
		}
		if err := p.Mutate(t.Context(), r); err != nil {
			t.Errorf("Mutate(%s of %T, subresource %q) = %v, want nil", test.operation, test.object, test.subresource, err)
		}
		if made, ok := test.object.(*corev1.Pod); ok && (len(made.Annotations) > 0) != test.refused {
			t.Errorf("%s %s: annotated %v", test.operation, test.subresource, made.Annotations)
		}
	}
}

// The copy knows of no limit range yet: the namespace is looked at, and again
// after half a minute.
func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stored ranges
		lookups, failure := 0, error(nil)
		p, err := limitranger.New(limitranger.Config{ByNamespace: ranges(nil), Lookup: func(ctx context.Context, namespace string) ([]*corev1.LimitRange, error) {
			lookups++
			time.Sleep(time.Second)
			return slices.Collect(stored.Get(namespace)), failure
		}})
		if err != nil {
			t.Fatal(err)
		}
		ask := func() error { return p.Validate(t.Context(), create(pod(container("c", nil, nil)))) }
		done := make(chan error)
		for range 10 {
			go func() { done <- ask() }()
		}
		for range 10 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if lookups != 1 {
			t.Errorf("%d look-ups for ten requests at a time", lookups)
		}
		stored = ranges{limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts("cpu", "1")})}
		if err := ask(); err != nil {
			t.Errorf("looked up again at once: %v", err)
		}
		time.Sleep(30 * time.Second)
		if err := ask(); err == nil || !strings.Contains(err.Error(), "minimum cpu usage") {
			t.Errorf("after half a minute: %v", err)
		}
		time.Sleep(30 * time.Second)
		failure = errors.New("no connection")
		if err := ask(); err == nil || !strings.Contains(err.Error(), "no connection") {
			t.Errorf("failing look-up: %v", err)
		}
		failure = nil
		if err := ask(); err == nil || !strings.Contains(err.Error(), "minimum cpu usage") {
			t.Errorf("a failure was remembered: %v", err)
		}
	})
}

func TestConfig(t *testing.T) {
	if _, err := limitranger.New(limitranger.Config{}); err == nil {
		t.Error("an empty configuration was accepted")
	}
}

func BenchmarkPod(b *testing.B) {
	for name, p := range map[string]*limitranger.Plugin{"ranges=0": newPlugin(b), "ranges=1": newPlugin(b, limitRange(corev1.LimitRangeItem{
		Type: corev1.LimitTypeContainer, Default: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "1"), Max: amounts("cpu", "2"), Min: amounts("cpu", "100m")}))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := create(pod(container("c", amounts("cpu", "1"), amounts("cpu", "1"))))
			for b.Loop() {
				if err := errors.Join(p.Mutate(b.Context(), r), p.Validate(b.Context(), r)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

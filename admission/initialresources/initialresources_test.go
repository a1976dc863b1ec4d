package initialresources_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/initialresources"
	"github.com/planekit/planekit/admission/initialresources/usagering"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func create(containers ...corev1.Container) (*corev1.Pod, *admission.Request) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
	return pod, &admission.Request{Operation: admission.Create, Namespace: "shop", Name: "web", Object: pod,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func newPlugin(t *testing.T, c initialresources.Config) *initialresources.Plugin {
	t.Helper()
	p, err := initialresources.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func Example() {
	usage, err := usagering.New(usagering.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range int64(50) {
		usage.Add(usagering.Sample{Image: "nginx:1.27", Namespace: "shop", CPU: 2 * i, Memory: i << 20})
	}
	plugin, err := initialresources.New(initialresources.Config{Source: usage})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.Chain{Mutators: []admission.Mutator{plugin}}
	pod, r := create(corev1.Container{Name: "web", Image: "nginx:1.27"})
	if err := chain.Mutate(context.Background(), r); err != nil {
		fmt.Println(err)
	}
	requests := pod.Spec.Containers[0].Resources.Requests
	fmt.Println(requests.Cpu(), requests.Memory().Value()>>20)
	fmt.Println(pod.Annotations[initialresources.Annotation])
	// Output:
	// 88m 44
	// Initial Resources plugin set: cpu, memory request for container web
}

// source answers with the number of samples that a query has in it, written as
// tag/where/days, and remembers what it was asked.
type source struct {
	samples map[string]int64
	asked   []string
	err     error
}

func (s *source) Usage(_ context.Context, q initialresources.Query) (usage, samples int64, err error) {
	where := q.Namespace
	if where == "" {
		where = "*"
	}
	asked := fmt.Sprintf("%s/%s/%d", q.Image, where, q.End.Sub(q.Start)/(24*time.Hour))
	if q.AnyTag {
		asked = "any " + asked
	}
	if q.Resource == corev1.ResourceCPU {
		s.asked = append(s.asked, asked)
	}
	return int64(q.Percentile), s.samples[asked], s.err
}

func TestWhatIsAsked(t *testing.T) {
	everywhere := []string{"reg:5000/a:1/shop/7", "reg:5000/a:1/shop/30", "reg:5000/a:1/*/7", "reg:5000/a:1/*/30", "any reg:5000/a/*/30"}
	here := []string{"reg:5000/a:1/shop/7", "reg:5000/a:1/shop/30", "any reg:5000/a/shop/30"}
	for only, queries := range map[bool][]string{false: everywhere, true: here} {
		for i, decisive := range queries {
			for _, n := range []int64{0, 1, 29, 30} {
				// What is asked before has almost enough, what comes after has plenty.
				s := &source{samples: map[string]int64{decisive: n}}
				for _, before := range queries[:i] {
					s.samples[before] = 29
				}
				for _, after := range queries[i+1:] {
					s.samples[after] = 100
				}
				pod, r := create(corev1.Container{Name: "web", Image: "reg:5000/a:1"})
				if err := newPlugin(t, initialresources.Config{Source: s, NamespaceOnly: only}).Mutate(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				last := i == len(queries)-1
				want := queries[:min(i+2, len(queries))]
				if n == 30 {
					want = queries[:i+1]
				}
				if !slices.Equal(s.asked, want) {
					t.Errorf("%d samples of %s: asked %v, want %v", n, decisive, s.asked, want)
				}
				estimated := pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() == 90
				if estimated != (!last || n > 0) {
					t.Errorf("%d samples of %s: %v", n, decisive, pod.Spec.Containers[0].Resources)
				}
			}
		}
	}
}

// TestWhatIsSaidStays: neither a request nor a limit is changed, nor can an estimate
// be above a limit, of the container or of the pod.
func TestWhatIsSaidStays(t *testing.T) {
	list := func(name corev1.ResourceName) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse("3")}
	}
	cpu, memory := list("cpu"), list("memory")
	type says = corev1.ResourceRequirements
	for name, test := range map[string]struct {
		container says
		pod       *says
		want      string // of what is estimated
	}{
		"nothing":               {says{}, nil, "cpu, memory request for container web"},
		"cpu request":           {says{Requests: cpu}, nil, "memory request for container web"},
		"cpu limit":             {says{Limits: cpu}, nil, "memory request for container web"},
		"memory request":        {says{Requests: memory}, nil, "cpu request for container web"},
		"memory limit":          {says{Limits: memory}, nil, "cpu request for container web"},
		"both":                  {says{Requests: memory, Limits: cpu}, nil, ""},
		"something else":        {says{Limits: list("gpu")}, nil, "cpu, memory request for container web"},
		"cpu limit of the pod":  {says{}, &says{Limits: cpu}, "memory request for container web"},
		"the pod says it all":   {says{}, &says{Requests: cpu, Limits: memory}, ""},
		"the pod says nothing":  {says{}, &says{}, "cpu, memory request for container web"},
		"shared between the 2":  {says{Requests: cpu}, &says{Requests: memory}, ""},
		"of the pod, something": {says{}, &says{Limits: list("hugepages-2Mi")}, "cpu, memory request for container web"},
	} {
		source := initialresources.UsageFunc(func(context.Context, initialresources.Query) (int64, int64, error) { return 1000, 30, nil })
		pod, r := create(corev1.Container{Name: "web", Image: "a", Resources: *test.container.DeepCopy()})
		pod.Spec.Resources = test.pod
		if err := newPlugin(t, initialresources.Config{Source: source}).Mutate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		want := test.want
		if want != "" {
			want = "Initial Resources plugin set: " + want
		}
		if got := pod.Annotations[initialresources.Annotation]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		got := pod.Spec.Containers[0].Resources
		for resource, quantity := range test.container.Requests {
			if has := got.Requests[resource]; has.Cmp(quantity) != 0 {
				t.Errorf("%s: changed to %v", name, got)
			}
		}
		if len(got.Limits) != len(test.container.Limits) || (want == "") != (len(got.Requests) == len(test.container.Requests)) {
			t.Errorf("%s: changed to %v", name, got)
		}
		if m, set := got.Requests["memory"]; strings.Contains(want, "memory") && (!set || m.Value() != 1000) {
			t.Errorf("%s: Mutate gives a memory request of %d (set: %t), want 1000", name, m.Value(), set)
		}
	}
}

func TestContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	source := initialresources.UsageFunc(func(context.Context, initialresources.Query) (int64, int64, error) { return 1, 30, nil })
	plugin := newPlugin(t, initialresources.Config{Source: source})
	pod, r := create(corev1.Container{Name: "web"}, corev1.Container{Name: "log"})
	pod.Spec.InitContainers = []corev1.Container{{Name: "setup"}, {Name: "sidecar", RestartPolicy: &always}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}}
	if err := plugin.Mutate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	const want = "Initial Resources plugin set: cpu, memory request for container sidecar; " +
		"cpu, memory request for container web; cpu, memory request for container log"
	if got := pod.Annotations[initialresources.Annotation]; got != want {
		t.Errorf("Mutate sets the annotation %q, want %q", got, want)
	}
	if pod.Spec.InitContainers[0].Resources.Requests != nil || pod.Spec.EphemeralContainers[0].Resources.Requests != nil {
		t.Errorf("Mutate gives the spec %v, want no requests of the first init container and the ephemeral one", &pod.Spec)
	}
	pod, r = create(corev1.Container{Name: "web"})
	r.Operation, r.OldObject = admission.Update, pod
	if err := plugin.Mutate(t.Context(), r); err != nil || pod.Annotations != nil {
		t.Errorf("an update: %v, %v", pod.Annotations, err)
	}
}

func TestSourceFails(t *testing.T) {
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	pod, r := create(corev1.Container{Name: "web", Image: "a"})
	err := newPlugin(t, initialresources.Config{Source: &source{err: errors.New("no such host")}, Log: log}).Mutate(t.Context(), r)
	if err != nil || pod.Spec.Containers[0].Resources.Requests != nil || pod.Annotations != nil {
		t.Errorf("Mutate with a source that fails = %v and gives %v, want nil, no requests and no annotations", err, pod)
	}
	if len(logged) != 2 || !strings.Contains(logged[0], "no such host") || !strings.Contains(logged[0], "shop/web") {
		t.Errorf("logged %q", logged)
	}
	for _, c := range []initialresources.Config{{}, {Source: &source{}, Percentile: 101}, {Source: &source{}, Percentile: -1}} {
		if _, err := initialresources.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// TestWindows: with a real source, usage of 8 days ago counts only when the last 7
// days have too little, and that of 31 days ago never.
func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		usage, err := usagering.New(usagering.Config{})
		if err != nil {
			t.Fatal(err)
		}
		plugin := newPlugin(t, initialresources.Config{Source: usage, Percentile: 100})
		add := func(n int, cpu int64) {
			for range n {
				usage.Add(usagering.Sample{Image: "a:1", Namespace: "shop", CPU: cpu})
			}
		}
		estimate := func() int64 {
			pod, r := create(corev1.Container{Name: "web", Image: "a:1"})
			if err := plugin.Mutate(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			return pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
		const day = 24 * time.Hour
		check := func(when string, want int64) {
			t.Helper()
			if got := estimate(); got != want {
				t.Errorf("%s: %d, want %d", when, got, want)
			}
		}
		check("nothing known", 0)
		add(30, 900)
		check("30 samples", 900)
		time.Sleep(8 * day)
		add(29, 100)
		check("29 of this week, 30 before", 900)
		add(1, 100)
		check("30 of this week", 100)
		time.Sleep(23 * day)
		check("30 of 23 days ago, 30 of 31 days ago", 100)
		time.Sleep(8 * day)
		check("all are too old", 0)
	})
}

func TestRepository(t *testing.T) {
	for image, want := range map[string]string{
		"a": "a", "a:1": "a", "reg:5000/a": "reg:5000/a", "reg:5000/a:1": "reg:5000/a", "a@sha256:00": "a", "reg:5000/b/a:1@sha256:00": "reg:5000/b/a", "": "",
	} {
		if got := initialresources.Repository(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

package extender_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gpuPod requests an example.com/gpu.
func gpuPod(name string, labels map[string]string) *corev1.Pod {
	one := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			SchedulerName: "default-scheduler",
			Containers:    []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: one, Limits: one}}},
		},
	}
}

func gpuNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}},
	}
}

// gpus is an extender that has room for one pod on the node b, and none for pods that are cold.
var gpus = extender.Handler{Filter: func(p *corev1.Pod, n *corev1.Node) schedule.Verdict {
	if n.Name != "b" || p.Labels["cold"] != "" {
		return schedule.Refuse("node(s) had no free GPU")
	}
	return schedule.Fits
}}

// Example schedules a pod with a resource that only the extender knows.
func Example() {
	server := httptest.NewServer(gpus)
	defer server.Close()
	client, err := extender.New(extender.Config{
		URLPrefix: server.URL, FilterVerb: "filter", NodeCacheCapable: true,
		ManagedResources: []extender.ManagedResource{{Name: "example.com/gpu", IgnoredByScheduler: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	bound := make(chan string)
	config := schedule.Config{
		Predicates: predicates.Default(),
		Nodes:      localcache.NewMap(gpuNode("a"), gpuNode("b"), gpuNode("c")),
		Pods:       localcache.NewMap(gpuPod("web", nil)),
		Bind: func(_ context.Context, pod *corev1.Pod, node string) error {
			bound <- pod.Name + " runs on " + node
			return nil
		},
	}
	extender.Add(&config, client)
	scheduler, err := schedule.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- scheduler.Run(ctx) }()
	fmt.Println(<-bound)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// web runs on b
	// <nil>
}

// TestAddIgnores ignores the resources of all extenders that are to be ignored, and no others.
func TestAddIgnores(t *testing.T) {
	client := func(name corev1.ResourceName, ignored bool) *extender.Client {
		c, err := extender.New(extender.Config{
			URLPrefix: "http://extender", FilterVerb: "filter", Transport: direct{gpus},
			ManagedResources: []extender.ManagedResource{{Name: name, IgnoredByScheduler: ignored}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, test := range map[string]struct {
		clients []*extender.Client
		fits    bool
	}{
		"none":        {nil, false},
		"another":     {[]*extender.Client{client("example.com/other", true)}, false},
		"not ignored": {[]*extender.Client{client("example.com/gpu", false)}, false},
		"ignored":     {[]*extender.Client{client("example.com/gpu", true), client("example.com/other", true)}, true},
	} {
		given := predicates.Default()
		config := schedule.Config{Predicates: given}
		extender.Add(&config, test.clients...)
		if len(config.Extenders) != len(test.clients) || len(config.Predicates) != len(given) {
			t.Errorf("%s: %d extenders and %d predicates", name, len(config.Extenders), len(config.Predicates))
		}
		for _, list := range [][]schedule.Predicate{config.Predicates, given} {
			s := schedule.NewState(list, nil, 1)
			s.SetNode(gpuNode("a"))
			_, unfit := s.Decide(schedule.NewPodInfo(gpuPod("web", nil)))
			want := test.fits && &list[0] != &given[0] // the given list is not changed
			if (unfit == nil) != want {
				t.Errorf("%s: Decide() refuses with %v, want a fit: %t", name, unfit, want)
			}
		}
	}
}

// TestRefusal says in the condition of a pod what the extender says of the nodes.
func TestRefusal(t *testing.T) {
	client, err := extender.New(extender.Config{URLPrefix: "http://extender", FilterVerb: "filter", Transport: direct{gpus}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var messages []string
	refused := make(chan struct{}, 1)
	config := schedule.Config{
		Predicates: []schedule.Predicate{schedule.PredicateFunc("Known", func(_ *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
			if n.Node.Name == "c" {
				return schedule.Refuse("node(s) were cold")
			}
			return schedule.Fits
		})},
		Nodes: localcache.NewMap(gpuNode("a"), gpuNode("b"), gpuNode("c")),
		Pods:  localcache.NewMap(gpuPod("web", map[string]string{"cold": "yes"})),
		Bind:  func(context.Context, *corev1.Pod, string) error { return nil },
		SetCondition: func(_ context.Context, _ *corev1.Pod, c corev1.PodCondition) error {
			mu.Lock()
			defer mu.Unlock()
			messages = append(messages, c.Reason+": "+c.Message)
			select {
			case refused <- struct{}{}:
			default:
			}
			return nil
		},
	}
	extender.Add(&config, client)
	runUntil(t, config, refused)
	if want := []string{"Unschedulable: 0/3 nodes are available: 1 node(s) were cold, 2 node(s) had no free GPU."}; !slices.Equal(messages, want) {
		t.Errorf("%q, want %q", messages, want)
	}
}

// TestShutdown ends a scheduler while an extender does not answer. Nothing of it is left.
func TestShutdown(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client is gone
		close(asked)
		<-r.Context().Done()
	}))
	defer server.Close()
	client, err := extender.New(extender.Config{URLPrefix: server.URL, FilterVerb: "filter", HTTPTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	config := schedule.Config{
		Nodes: localcache.NewMap(gpuNode("a")), Pods: localcache.NewMap(gpuPod("web", nil)),
		Bind: func(context.Context, *corev1.Pod, string) error { return errors.New("bound") },
		Event: func(_ string, _ *corev1.Pod, _, reason, message string) {
			t.Errorf("the event %s: %s, want none", reason, message)
		},
	}
	extender.Add(&config, client)
	runUntil(t, config, asked)
}

// runUntil runs a scheduler until something has happened.
func runUntil(t *testing.T, config schedule.Config, happened <-chan struct{}) {
	t.Helper()
	scheduler, err := schedule.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- scheduler.Run(ctx) }()
	<-happened
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

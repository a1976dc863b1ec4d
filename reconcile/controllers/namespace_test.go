package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/namespace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rooms holds the contents of namespaces: pods, one of which ends with each pass, and secrets,
// which are deleted at once.
type rooms struct {
	mu      sync.Mutex
	pods    map[string]int
	secrets map[string]int
	// held pods wait for a finalizer.
	held bool
	// left is the number of pods that do not end.
	left int
	// broken keeps secrets from being read, unknown some resources from being
	// discovered.
	broken, unknown bool
	// early describes what was deleted while there were pods.
	early string
}

func (r *rooms) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *rooms) contents(context.Context) ([]namespace.Content, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.unknown {
		err = errors.New("metrics.k8s.io/v1beta1: the server is currently unable to handle the request")
	}
	return []namespace.Content{
		{Resource: schema.GroupResource{Resource: "secrets"}, Empty: r.emptySecrets},
		{Resource: schema.GroupResource{Resource: "pods"}, Empty: r.emptyPods},
		{Resource: schema.GroupResource{Group: "metrics.k8s.io", Resource: "pods"}, Empty: r.emptyMeasured},
	}, err
}

func (r *rooms) emptyPods(_ context.Context, ns string) (namespace.Remaining, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := r.pods[ns]
	if r.held {
		return namespace.Remaining{Objects: there, Finalizers: map[string]int{"example.com/hold": there}}, nil
	}
	r.pods[ns] = max(0, there-1)
	return namespace.Remaining{Objects: r.pods[ns] + r.left}, nil
}

func (r *rooms) emptySecrets(_ context.Context, ns string) (namespace.Remaining, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteEarly(ns)
	if r.broken {
		return namespace.Remaining{}, errors.New("no route to host")
	}
	r.secrets[ns] = 0
	return namespace.Remaining{}, nil
}

// emptyMeasured is of what is called pods, and is none.
func (r *rooms) emptyMeasured(_ context.Context, ns string) (namespace.Remaining, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteEarly(ns)
	return namespace.Remaining{}, nil
}

func (r *rooms) noteEarly(namespace string) {
	if n := r.pods[namespace] + r.left; n > 0 {
		r.early = fmt.Sprintf("of %s more was deleted than its %d pods", namespace, n)
	}
}

func (c *cluster) runNamespaces(t *testing.T, r *rooms, l lag) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*namespace.Controller](t)(namespace.New(namespace.Config{
			Namespaces: follow(ctx, c.namespaces, l), Contents: r.contents, Writer: finalizer{c.namespaces}, StatusWriter: c.namespaces,
		}))}
	})
}

func (c *cluster) addNamespace(t *testing.T, name string, finalizers ...corev1.FinalizerName) {
	t.Helper()
	must[*corev1.Namespace](t)(c.namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NamespaceSpec{Finalizers: append(finalizers, corev1.FinalizerKubernetes)}}))
}

// terminate marks a namespace as being deleted. A finalizer in its metadata represents
// spec.finalizers, by which the API keeps it.
func (c *cluster) terminate(t *testing.T, name string) {
	t.Helper()
	now := metav1.Now()
	c.namespaces.alter(t, name, func(n *corev1.Namespace) {
		n.DeletionTimestamp, n.Finalizers = &now, []string{"stay"}
	})
}

func (c *cluster) namespace(name string) *corev1.Namespace {
	for _, n := range c.namespaces.list() {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// conditions are the conditions that are true, as "type reason: message".
func trueConditions(n *corev1.Namespace) (list []string) {
	for _, c := range n.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			list = append(list, fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message))
		}
	}
	slices.Sort(list)
	return list
}

// TestNamespace deletes a namespace whose contents are broken, unknown and held,
// in turn, and reads from its status what it waits for.
func TestNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		r := &rooms{pods: map[string]int{"doomed": 3, "other": 3}, secrets: map[string]int{"doomed": 1, "other": 1}, broken: true, unknown: true, held: true}
		p := c.runNamespaces(t, r, lag{random: rand.New(rand.NewPCG(1, 1)), most: time.Second})
		c.addNamespace(t, "doomed", "example.com/mine")
		c.addNamespace(t, "other")
		c.terminate(t, "doomed")
		settle()
		want := []string{
			"NamespaceContentRemaining SomeResourcesRemain: Some resources are remaining: pods. has 3 resource instances",
			"NamespaceDeletionDiscoveryFailure DiscoveryFailed: metrics.k8s.io/v1beta1: the server is currently unable to handle the request",
			"NamespaceFinalizersRemaining SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances",
		}
		if got := trueConditions(c.namespace("doomed")); !slices.Equal(got, want) || r.secrets["doomed"] != 1 {
			t.Errorf("conditions\n%q, want\n%q; %d secrets are left", got, want, r.secrets["doomed"])
		}
		r.set(func() { r.held = false })
		settle()
		if r.pods["doomed"] != 0 {
			t.Error("one resource that cannot be emptied kept another")
		}
		want = []string{
			"NamespaceDeletionContentFailure ContentDeletionFailed: Failed to delete all resource types, 1 remaining: secrets: no route to host",
			want[1],
		}
		if got := trueConditions(c.namespace("doomed")); !slices.Equal(got, want) {
			t.Errorf("conditions\n%q, want\n%q", got, want)
		}
		r.set(func() { r.broken = false })
		settle()
		if got := c.namespace("doomed").Spec.Finalizers; len(got) != 2 {
			t.Errorf("finalized while not all resources were known: %v", got)
		}
		r.set(func() { r.unknown = false })
		settle()
		doomed := c.namespace("doomed")
		if got := doomed.Spec.Finalizers; !slices.Equal(got, []corev1.FinalizerName{"example.com/mine"}) {
			t.Errorf("finalizers %v", got)
		}
		if got := trueConditions(doomed); len(got) != 0 || len(doomed.Status.Conditions) != 5 {
			t.Errorf("conditions %v", doomed.Status.Conditions)
		}
		if other := c.namespace("other"); len(other.Spec.Finalizers) != 1 || len(other.Status.Conditions) != 0 || r.pods["other"] != 3 || r.secrets["other"] != 1 {
			t.Errorf("a namespace that stays was touched: %v", other)
		}
		if r.early != "" {
			t.Error(r.early)
		}
		p.stop(t)
	})
}

// TestNamespacePerturbed deletes namespaces under caches that lag and miss changes, while some
// writes fail and the process is restarted after each. No namespace is finalized before it is
// empty, and no other namespace is touched.
func TestNamespacePerturbed(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				c := newCluster()
				r := &rooms{pods: map[string]int{}, secrets: map[string]int{}}
				c.namespaces.check = func(old, new *corev1.Namespace) {
					r.mu.Lock()
					defer r.mu.Unlock()
					if new != nil && len(new.Spec.Finalizers) == 0 && (r.pods[new.Name] > 0 || r.secrets[new.Name] > 0) {
						t.Errorf("%s was let go with %d pods and %d secrets", new.Name, r.pods[new.Name], r.secrets[new.Name])
					}
				}
				for i := range 6 {
					name := fmt.Sprint("namespace-", i)
					c.addNamespace(t, name)
					r.pods[name], r.secrets[name] = random.IntN(4), 1
				}
				l := lag{random: random, most: 2 * time.Second, relist: 30}
				writes, at := 0, 1+random.IntN(4)
				p := c.runNamespaces(t, r, l)
				c.api.mu.Lock()
				c.api.fault = func(verb, _ string) (bool, error) {
					if verb == "create" {
						return true, nil
					}
					if writes++; writes == at {
						p.cancel()
						return random.IntN(2) == 0, errors.New("connection reset by peer")
					}
					return true, nil
				}
				c.api.mu.Unlock()
				for i := range 4 {
					c.terminate(t, fmt.Sprint("namespace-", i))
				}
				settle()
				p.stop(t)
				p = c.runNamespaces(t, r, l)
				settle()
				for i := range 6 {
					n := c.namespace(fmt.Sprint("namespace-", i))
					if gone := len(n.Spec.Finalizers) == 0; gone != (i < 4) {
						t.Errorf("%s: finalizers %v", n.Name, n.Spec.Finalizers)
					}
				}
				if r.early != "" {
					t.Error(r.early)
				}
				p.stop(t)
			})
		})
	}
}

//lint:file-ignore SA1019 clients still read Endpoints

package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// churn changes services, pods and nodes at random for a while.
func (w *endpointWorld) churn(t *testing.T, r *rand.Rand, steps int) {
	ctx := context.WithoutCancel(t.Context())
	for range steps {
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		pods, services := w.pods.list(), w.services.list()
		switch k := r.IntN(20); {
		case k < 8:
			n := 1 + r.IntN(20)
			_, _ = w.pods.Create(ctx, newEndpointPod(n, []string{"a", "b"}[r.IntN(2)], int32(80+r.IntN(2)))) // may be there
		case k == 8:
			_, _ = w.services.Create(ctx, newService([]string{"one", "two"}[r.IntN(2)], []string{"a", "b"}[r.IntN(2)]))
		case k == 9 && len(services) > 0:
			_ = w.services.Delete(ctx, "default", services[0].Name, metav1.DeleteOptions{}) // may fail
		case k == 10 && len(services) > 0:
			w.services.alter(t, keyOf(services[0]), func(s *corev1.Service) {
				s.Labels = map[string]string{"version": fmt.Sprint(r.IntN(5))}
				s.Spec.Selector = map[string]string{"app": []string{"a", "b"}[r.IntN(2)]}
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}[:1+r.IntN(2)]
			})
		case k == 11:
			w.nodes.alter(t, "node-a", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = fmt.Sprint(r.IntN(3)) })
		case len(pods) == 0:
		default:
			w.changePod(t, r, pods[r.IntN(len(pods))])
		}
	}
}

func (w *endpointWorld) changePod(t *testing.T, r *rand.Rand, pod *corev1.Pod) {
	k := r.IntN(5)
	w.pods.alter(t, keyOf(pod), func(p *corev1.Pod) {
		now, grace := metav1.Now(), int64(k%2) // of 0 it goes at once
		switch k {
		case 0, 1:
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
		case 2:
			p.Labels = map[string]string{"app": []string{"a", "b"}[r.IntN(2)]}
		case 3:
			p.Status.Phase = corev1.PodSucceeded
		default:
			p.Status.Conditions[0].Status = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[r.IntN(2)]
			p.Status.Conditions[0].LastTransitionTime = now
		}
	})
}

// guard fails the test when an endpoint is in two slices of a service at a time.
func (w *endpointWorld) guard(t *testing.T) {
	w.slices.check = func(_, new *discoveryv1.EndpointSlice) {
		if new == nil {
			return
		}
		in := map[string]string{}
		for _, s := range w.slices.objects {
			for _, e := range s.Endpoints {
				id := fmt.Sprint(s.OwnerReferences[0].UID, e.TargetRef.UID, e.Addresses, *s.Ports[0].Port)
				if other := in[id]; other != "" {
					t.Errorf("pod %s is in slices %s and %s", e.TargetRef.Name, other, s.Name)
				}
				in[id] = s.Name
			}
		}
	}
}

// TestEndpointsFaults has copies that are old by different times and miss changes,
// processes that are replaced at any time, and, for every other seed, writes that
// fail before or after they took effect. In the end everything says what is; and
// unless answers are lost no endpoint is ever in two slices.
func TestEndpointsFaults(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 11))
				w := newEndpointWorld(t)
				noFaults := func() {}
				if seed%2 == 0 {
					noFaults = (&world{api: w.api}).faults(r, 20)
				} else {
					w.guard(t)
				}
				for range 4 {
					p := w.launch(t, lag{random: r, most: time.Duration(1+r.IntN(8)) * time.Second, relist: r.IntN(40)})
					w.churn(t, r, 60)
					p.stop(t)
				}
				noFaults()
				p := w.launch(t, lag{random: r, most: time.Second, relist: 10})
				w.churn(t, r, 10)
				settle()
				w.converged(t)
				writes := len(w.wrote())
				settle()
				if got := w.wrote()[writes:]; len(got) > 0 {
					t.Errorf("still writes: %v", got)
				}
				p.stop(t)
			})
		})
	}
}

// TestEndpointsCrash has the process die at each of its writes, done or not, and
// another take over.
func TestEndpointsCrash(t *testing.T) {
	for at := range 28 {
		for _, applied := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newEndpointWorld(t)
				w.guard(t)
				n, dead := 0, make(chan struct{})
				w.fault = func(verb, name string) (bool, error) {
					switch n++; {
					case n <= at:
						return true, nil
					case n == at+1:
						close(dead)
						return applied, errLost
					}
					return false, errLost
				}
				p := w.launch(t, lag{})
				script := func(steps ...func()) {
					for _, step := range steps {
						step()
						time.Sleep(5 * time.Second)
					}
				}
				// The world outside is not at fault, so it does not ask.
				add := func(number int) func() { return func() { put(w.pods, newEndpointPod(number, "a", 80)) } }
				script(
					func() { put(w.services, newService("one", "a")) },
					add(1), add(2), add(3), add(4), add(5), add(6), add(7),
					func() { w.changePods(t, func(p *corev1.Pod) { p.Labels["app"] = "b" }) },
					func() { put(w.services, newService("two", "b")) },
					func() {
						w.services.alter(t, "default/two", func(s *corev1.Service) { s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPv6Protocol) })
					},
					func() {
						w.services.alter(t, "default/one", func(s *corev1.Service) { now := metav1.Now(); s.DeletionTimestamp = &now })
					},
				)
				select {
				case <-dead:
				default:
					t.Errorf("it did not write %d times", at+1)
				}
				p.stop(t)
				w.mu.Lock()
				w.fault = nil
				w.mu.Unlock()
				p = w.launch(t, lag{})
				settle()
				w.converged(t)
				p.stop(t)
			})
		}
	}
}

// put stores o as another client would.
func put[T thing[T]](c *collection[T], o T) {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	var none T
	o.SetUID(types.UID(fmt.Sprint("uid-", c.api.revision+1)))
	c.put(keyOf(o), none, o)
}

func (w *endpointWorld) changePods(t *testing.T, change func(*corev1.Pod)) {
	for _, p := range w.pods.list() {
		w.pods.alter(t, keyOf(p), change)
	}
}

// TestEndpointsLostAnswer checks that a slice whose creation was not answered is not created twice.
func TestEndpointsLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		w.slices.check = func(_, _ *discoveryv1.EndpointSlice) {
			if n := len(w.slices.objects); n > 1 {
				t.Errorf("%d slices", n)
			}
		}
		lost := 0
		w.fault = func(verb, name string) (bool, error) {
			if verb == "create" && lost < 6 {
				lost++
				return true, errLost
			}
			return true, nil
		}
		p := w.launchLate(t, lag{}, lag{least: 20 * time.Second})
		put(w.services, newService("one", "a"))
		settle()
		w.converged(t)
		p.stop(t)
	})
}

// TestEndpointsOfALateService checks that Endpoints whose service is not in the cache yet stay, and
// that Endpoints created after the deletion of the service are not mistaken for the old ones.
func TestEndpointsOfALateService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		managed := func() *corev1.Endpoints {
			return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one",
				Labels: map[string]string{"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}}
		}
		w.endpoints.check = func(_, new *corev1.Endpoints) {
			if new == nil {
				t.Error("deleted")
			}
		}
		p := w.launchLate(t, lag{least: time.Minute}, lag{})
		put(w.services, newService("one", "a"))
		put(w.endpoints, managed())
		settle()
		w.converged(t)
		p.stop(t)

		w.endpoints.check = nil
		p = w.launchLate(t, lag{}, lag{least: time.Minute})
		w.mu.Lock()
		now := metav1.Now()
		gone := w.services.objects["default/one"].DeepCopy()
		gone.DeletionTimestamp = &now
		w.services.put("default/one", w.services.objects["default/one"], gone)
		w.mu.Unlock()
		mine := managed()
		mine.Labels = nil
		put(w.endpoints, mine) // in place of those that went with the service
		w.endpoints.check = func(_, new *corev1.Endpoints) {
			if new == nil {
				t.Error("deleted what is new")
			}
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		p.stop(t)
	})
}

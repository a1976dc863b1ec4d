package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/quota"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// quotaWorld is an API with quotas, whose server charges pods as admission does.
type quotaWorld struct {
	*api
	quotas *collection[*corev1.ResourceQuota]
	pods   *collection[*corev1.Pod]
}

func newQuotaWorld() *quotaWorld {
	a := &api{}
	return &quotaWorld{
		api:    a,
		quotas: newCollection(a, "ResourceQuota", func() *corev1.ResourceQuota { return &corev1.ResourceQuota{} }),
		pods:   newPods(a),
	}
}

func (w *quotaWorld) launch(t *testing.T, quotas, pods lag) *process {
	return launch(t, func(ctx context.Context) []controllers.Runner {
		copied := follow(ctx, w.quotas, quotas)
		return []controllers.Runner{must[*quota.Controller](t)(quota.New(quota.Config{
			ResourceQuotas: copied, Writer: w.quotas,
			Kinds: []quota.Kind{
				quota.NewKind[*corev1.Pod](schema.GroupResource{Resource: "pods"}, follow(ctx, w.pods, pods)),
				quota.NewKind[*corev1.ResourceQuota](schema.GroupResource{Resource: "resourcequotas"}, copied),
			},
		}))}
	})
}

// newQuota is a quota q in namespace default with hard, given as name and
// amount in turn.
func newQuota(hard ...string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"}}
	q.Spec.Hard = amounts(hard...)
	return q
}

func amounts(list ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(list); i += 2 {
		out[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
	}
	return out
}

func quotaPod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: amounts("cpu", cpu)}}}},
	}
}

// charge adds to what the quota says is used, as admission does, unless it would
// be too much.
func (w *quotaWorld) charge(t *testing.T, pods int64, cpu string) bool {
	t.Helper()
	ok := true
	w.quotas.alter(t, "default/q", func(q *corev1.ResourceQuota) {
		used := q.Status.Used.DeepCopy()
		for name, more := range map[corev1.ResourceName]resource.Quantity{"pods": *resource.NewQuantity(pods, resource.DecimalSI), "cpu": resource.MustParse(cpu)} {
			if hard, limited := q.Status.Hard[name]; limited {
				have := used[name]
				have.Add(more)
				used[name] = have
				ok = ok && have.Cmp(hard) <= 0
			}
		}
		if ok {
			q.Status.Used = used
		}
	})
	return ok
}

func (w *quotaWorld) create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	must[*corev1.Pod](t)(w.pods.Create(t.Context(), pod))
}

// remove deletes a pod at once.
func (w *quotaWorld) remove(t *testing.T, name string) {
	t.Helper()
	none := int64(0)
	if err := w.pods.Delete(context.WithoutCancel(t.Context()), "default", name, metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		t.Fatal(err)
	}
}

func (w *quotaWorld) wantUsed(t *testing.T, step string, want ...string) {
	t.Helper()
	status := w.quotas.list()[0].Status
	wanted := amounts(want...)
	if len(status.Used) != len(wanted) {
		t.Errorf("%s: used %v, want %v", step, status.Used, want)
	}
	for name, q := range wanted {
		if have, ok := status.Used[name]; !ok || have.Cmp(q) != 0 {
			t.Errorf("%s: %s used %s, want %s", step, name, &have, &q)
		}
	}
}

func TestResourceQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld()
		w.create(t, quotaPod("first", "1"))
		p := w.launch(t, lag{}, lag{})
		must[*corev1.ResourceQuota](t)(w.quotas.Create(t.Context(), newQuota("pods", "10", "cpu", "20", "count/pods", "30", "resourcequotas", "1", "count/widgets.example.com", "5")))
		settle() // It may be seen as a quota before it is seen as an object to count.
		w.wantUsed(t, "a new quota", "pods", "1", "cpu", "1", "count/pods", "1", "resourcequotas", "1")

		// Made without being charged for.
		w.create(t, quotaPod("second", "500m"))
		settle()
		w.wantUsed(t, "a second pod", "pods", "2", "cpu", "1500m", "count/pods", "2", "resourcequotas", "1")

		w.pods.alter(t, "default/first", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		synctest.Wait()
		w.wantUsed(t, "a pod that ended", "pods", "1", "cpu", "500m", "count/pods", "2", "resourcequotas", "1")

		// A pod in another namespace is no business of this quota.
		other := quotaPod("other", "1")
		other.Namespace = "other"
		w.create(t, other)
		w.remove(t, "second")
		synctest.Wait()
		w.wantUsed(t, "a pod that is gone", "pods", "0", "cpu", "0", "count/pods", "1", "resourcequotas", "1")

		w.quotas.alter(t, "default/q", func(q *corev1.ResourceQuota) { q.Spec.Hard = amounts("count/pods", "3") })
		synctest.Wait()
		w.wantUsed(t, "another quota", "count/pods", "1")
		if hard := w.quotas.list()[0].Status.Hard; len(hard) != 1 || hard["count/pods"] != resource.MustParse("3") {
			t.Errorf("status says %v", hard)
		}
		writes := len(w.wrote())
		settle()
		if got := w.wrote()[writes:]; len(got) > 0 {
			t.Errorf("still writes: %v", got)
		}
		p.stop(t)
	})
}

// A quota of a scope counts the pods in it, and those that leave it no more.
func TestResourceQuotaScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld()
		q := newQuota("pods", "10")
		q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotTerminating}
		must[*corev1.ResourceQuota](t)(w.quotas.Create(t.Context(), q))
		w.create(t, quotaPod("a", "1"))
		w.create(t, quotaPod("b", "1"))
		p := w.launch(t, lag{}, lag{})
		synctest.Wait()
		w.wantUsed(t, "two", "pods", "2")
		w.pods.alter(t, "default/a", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64) })
		synctest.Wait()
		w.wantUsed(t, "one has a deadline", "pods", "1")
		p.stop(t)
	})
}

// What was charged and is not there may still come: it is given back late, while
// what goes is given back at once.
func TestResourceQuotaInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld()
		must[*corev1.ResourceQuota](t)(w.quotas.Create(t.Context(), newQuota("pods", "10")))
		p := w.launch(t, lag{}, lag{})
		synctest.Wait()
		w.charge(t, 3, "0") // of which one never comes
		for i := range 2 {
			w.create(t, quotaPod(fmt.Sprint("pod", i), "1"))
		}
		synctest.Wait()
		w.remove(t, "pod0")
		synctest.Wait()
		w.wantUsed(t, "one is gone, one may come", "pods", "2")
		time.Sleep(30 * time.Second)
		w.charge(t, 1, "0") // nor does this
		time.Sleep(29 * time.Second)
		w.remove(t, "pod1")
		synctest.Wait()
		w.wantUsed(t, "two may come", "pods", "2")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.wantUsed(t, "none came", "pods", "0")
		p.stop(t)
	})
}

// A process that begins does not know what is on its way either.
func TestResourceQuotaBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld()
		q := newQuota("pods", "10")
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: amounts("pods", "4")}
		must[*corev1.ResourceQuota](t)(w.quotas.Create(t.Context(), q))
		w.create(t, quotaPod("a", "1"))
		p := w.launch(t, lag{}, lag{})
		time.Sleep(50 * time.Second)
		synctest.Wait()
		w.wantUsed(t, "at first", "pods", "4")
		w.remove(t, "a")
		synctest.Wait()
		w.wantUsed(t, "one is gone", "pods", "3")
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantUsed(t, "later", "pods", "0")
		p.stop(t)
	})
}

// A pod that was neither charged nor counted leaves no room when it goes.
func TestResourceQuotaUncharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld()
		must[*corev1.ResourceQuota](t)(w.quotas.Create(t.Context(), newQuota("pods", "10")))
		p := w.launch(t, lag{}, lag{})
		synctest.Wait()
		w.create(t, quotaPod("uncharged", "1"))
		synctest.Wait()
		w.remove(t, "uncharged")
		synctest.Wait()
		w.charge(t, 2, "0") // of which one is still on its way
		w.create(t, quotaPod("charged", "1"))
		synctest.Wait()
		w.remove(t, "charged")
		synctest.Wait()
		w.wantUsed(t, "one may come", "pods", "1")
		p.stop(t)
	})
}

// TestResourceQuotaWaits checks that nothing is counted before the handlers have seen all cached
// objects.
func TestResourceQuotaWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld()
		must[*corev1.ResourceQuota](t)(w.quotas.Create(t.Context(), newQuota("pods", "10")))
		w.create(t, quotaPod("a", "1"))
		w.create(t, quotaPod("b", "1"))
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			kind := quota.NewKind[*corev1.Pod](schema.GroupResource{Resource: "pods"}, follow(ctx, w.pods, lag{}))
			kind.Changes = lateChanges{kind.Changes}
			return []controllers.Runner{must[*quota.Controller](t)(quota.New(quota.Config{
				ResourceQuotas: follow(ctx, w.quotas, lag{}), Writer: w.quotas, Kinds: []quota.Kind{kind}}))}
		})
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		w.wantUsed(t, "before it was told")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.wantUsed(t, "after", "pods", "2")
		p.stop(t)
	})
}

// lateChanges subscribes a second late.
type lateChanges struct {
	localcache.Subscriber[metav1.Object]
}

func (c lateChanges) Subscribe(handle func(old, new metav1.Object)) localcache.Subscription {
	caughtUp := make(chan struct{})
	timer := time.AfterFunc(time.Second, func() {
		c.Subscriber.Subscribe(handle)
		close(caughtUp)
	})
	return localcache.Subscription{CaughtUp: caughtUp, Stop: func() { timer.Stop() }}
}

// guard fails the test as soon as more pods count than the quota says are used
// or allows.
func (w *quotaWorld) guard(t *testing.T, limit int) {
	live := 0
	count := func(p *corev1.Pod) int {
		if p == nil || p.Status.Phase == corev1.PodSucceeded {
			return 0
		}
		return 1
	}
	w.pods.check = func(old, new *corev1.Pod) {
		if live += count(new) - count(old); live > limit {
			t.Errorf("%d pods, more than %d", live, limit)
		}
		if q := w.quotas.objects["default/q"]; q != nil {
			if used := q.Status.Used["pods"]; used.Value() < int64(live) {
				t.Errorf("%d pods, but %s are used", live, &used)
			}
		}
	}
}

// churn makes, ends and deletes pods at random for a while: charged first, made
// some time later or never.
func (w *quotaWorld) churn(t *testing.T, random *rand.Rand, steps int) {
	made := 0
	for range steps {
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
		pods := w.pods.list()
		switch k := random.IntN(10); {
		case k < 6:
			if !w.charge(t, 1, "1") {
				continue
			}
			name, late, lost := fmt.Sprint("p", made), time.Duration(random.IntN(20_000))*time.Millisecond, random.IntN(8) == 0
			made++
			if lost {
				continue
			}
			go func() {
				time.Sleep(late)
				w.mu.Lock()
				defer w.mu.Unlock()
				pod := quotaPod(name, "1")
				w.pods.put(keyOf(pod), nil, pod)
			}()
		case k < 8 && len(pods) > 0:
			w.pods.alter(t, keyOf(pods[random.IntN(len(pods))]), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		case len(pods) > 0:
			pod := pods[random.IntN(len(pods))]
			w.mu.Lock()
			now, none := metav1.Now(), int64(0)
			old := w.pods.objects[keyOf(pod)]
			gone := old.DeepCopy()
			gone.DeletionTimestamp, gone.DeletionGracePeriodSeconds = &now, &none
			w.pods.put(keyOf(pod), old, gone)
			w.mu.Unlock()
		}
	}
}

// wantExact wants the status to say what there is.
func (w *quotaWorld) wantExact(t *testing.T) {
	t.Helper()
	live := 0
	for _, p := range w.pods.list() {
		if p.Status.Phase != corev1.PodSucceeded {
			live++
		}
	}
	w.wantUsed(t, "in the end", "pods", fmt.Sprint(live), "cpu", fmt.Sprint(live))
}

// Views may be old by different times, and miss changes; writes fail, before or
// after they took effect; the process is replaced at any time. At no time there
// are more pods than the quota allows or says, and in the end it says what there
// is.
func TestResourceQuotaFaults(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random, dice := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(seed, 4)) // dice is used under the lock of the api
				w := newQuotaWorld()
				w.guard(t, 5)
				q := newQuota("pods", "5", "cpu", "100")
				q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: amounts("pods", "0", "cpu", "0")}
				must[*corev1.ResourceQuota](t)(w.quotas.Create(t.Context(), q))
				w.fault = func(verb, _ string) (bool, error) {
					if verb != "status" || dice.IntN(4) > 0 {
						return true, nil
					}
					return dice.IntN(2) == 0, errLost
				}
				l := func() lag {
					return lag{random: random, most: time.Duration(1+random.IntN(10)) * time.Second, relist: random.IntN(50)}
				}
				for range 4 {
					p := w.launch(t, l(), l())
					w.churn(t, random, 60)
					p.stop(t)
				}
				w.mu.Lock()
				w.fault = nil
				w.mu.Unlock()
				p := w.launch(t, lag{}, lag{})
				settle()
				w.wantExact(t)
				p.stop(t)
			})
		})
	}
}

// TestResourceQuotaCrash has the process die at each of its writes, done or not.
func TestResourceQuotaCrash(t *testing.T) {
	for at := range 4 {
		for _, applied := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newQuotaWorld()
				w.guard(t, 5)
				q := newQuota("pods", "5", "cpu", "100")
				q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: amounts("pods", "0", "cpu", "0")}
				must[*corev1.ResourceQuota](t)(w.quotas.Create(t.Context(), q))
				dead := make(chan struct{})
				n := 0
				w.fault = func(verb, _ string) (bool, error) {
					if verb != "status" {
						return true, nil
					}
					switch n++; {
					case n <= at:
						return true, nil
					case n == at+1:
						close(dead)
						return applied, errLost
					}
					return false, errLost
				}
				p := w.launch(t, lag{}, lag{})
				w.churn(t, rand.New(rand.NewPCG(uint64(at), 9)), 40)
				select {
				case <-dead:
				case <-time.After(time.Hour):
					t.Errorf("it did not write %d times", at+1)
				}
				p.stop(t)
				w.mu.Lock()
				w.fault = nil
				w.mu.Unlock()
				p = w.launch(t, lag{}, lag{})
				settle()
				w.wantExact(t)
				p.stop(t)
			})
		}
	}
}

func TestResourceQuotaConfig(t *testing.T) {
	for _, config := range []quota.Config{
		{},
		{ResourceQuotas: &cache[*corev1.ResourceQuota]{}},
		{ResourceQuotas: &cache[*corev1.ResourceQuota]{}, Writer: newQuotaWorld().quotas},
		{ResourceQuotas: &cache[*corev1.ResourceQuota]{}, Writer: newQuotaWorld().quotas, Kinds: make([]quota.Kind, 1)},
		{ResourceQuotas: &cache[*corev1.ResourceQuota]{}, Writer: newQuotaWorld().quotas, Kinds: make([]quota.Kind, 1), InFlight: -1},
	} {
		if _, err := quota.New(config); err == nil {
			t.Errorf("%+v was accepted", config)
		}
	}
}

package resourcequota_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	quotacontroller "github.com/planekit/planekit/reconcile/controllers/quota"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unreliable is a store that makes changes and does not acknowledge them, or does not make them and does not
// say so, while it is broken. It counts the pods that it has.
type unreliable struct {
	storage.Store
	mu         sync.Mutex // guards the fields below
	random     *rand.Rand // nil while the store is sound
	live, most int
}

func (u *unreliable) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	u.mu.Lock()
	dice := 100
	if u.random != nil {
		dice = u.random.IntN(20)
	}
	u.mu.Unlock()
	if dice == 0 {
		return storage.Record{}, errors.New("no connection")
	}
	r, err := u.Store.Commit(ctx, c)
	if err == nil && strings.Contains(string(c.Key), "/pods/") && c.Op != storage.Update {
		u.mu.Lock()
		if u.live++; c.Op == storage.Delete {
			u.live -= 2
		}
		u.most = max(u.most, u.live)
		u.mu.Unlock()
	}
	if dice < 4 {
		return storage.Record{}, storagetest.ErrLost
	}
	return r, err
}

func (u *unreliable) breakDown(random *rand.Rand) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.random = random
}

func (u *unreliable) pods() (live, most int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.live, u.most
}

// TestServersOnUnreliableStore: pods come and go through two servers while a fifth of all changes, those of the
// quota too, has an unknown outcome. There are never more pods than the quota allows. Afterwards the quota is
// charged for the pods that exist and no others, and as many more as it allows can be created.
func TestServersOnUnreliableStore(t *testing.T) {
	const limit, workers, each = 15, 8, 25
	store := &unreliable{Store: memstore.New()}
	clients := []*client.Client{startServer(t, store), startServer(t, store)}
	quotas, pods := typed.ResourceQuotas(clients[0]), typed.Pods(clients[0])
	podCopy, quotaCopy := runCache(t, pods), runCache(t, quotas)
	controller, err := quotacontroller.New(quotacontroller.Config{
		ResourceQuotas: quotaCopy, Writer: quotas, InFlight: 2 * time.Second,
		Kinds: []quotacontroller.Kind{quotacontroller.NewKind[*corev1.Pod](schema.GroupResource{Resource: "pods"}, podCopy)},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, controller.Run)
	if _, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", fmt.Sprint(limit))}}); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { q, ok := quotaCopy.Get("default/q"); return ok && len(q.Status.Used) == 1 })
	store.breakDown(rand.New(rand.NewPCG(28, 0)))
	none := int64(0)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			mine := typed.Pods(clients[w%len(clients)])
			for i := range each {
				name := fmt.Sprintf("p-%d-%d", w, i)
				p := pod(nil, nil)
				p.Name, p.Spec.Containers[0].Image = name, "nginx"
				_, _ = mine.Create(t.Context(), p)
				if i%2 == 1 {
					_ = mine.Delete(t.Context(), "default", fmt.Sprintf("p-%d-%d", w, i-1), metav1.DeleteOptions{GracePeriodSeconds: &none})
				}
			}
		})
	}
	all.Wait()
	store.breakDown(nil)
	used := func() int64 {
		q, err := quotas.Get(t.Context(), "default", "q")
		if err != nil {
			t.Fatal(err)
		}
		used := q.Status.Used["pods"]
		return used.Value()
	}
	await(t, func() bool { live, _ := store.pods(); return used() == int64(live) })
	live, _ := store.pods()
	made := 0
	for i := range limit + 5 {
		p := pod(nil, nil)
		p.Name, p.Spec.Containers[0].Image = fmt.Sprintf("after-%d", i), "nginx"
		if _, err := pods.Create(t.Context(), p); err == nil {
			made++
		}
	}
	if made != limit-live {
		t.Errorf("%d more pods were created beside %d, want %d", made, live, limit-live)
	}
	if _, most := store.pods(); most > limit {
		t.Errorf("there were %d pods at a time, want at most %d", most, limit)
	}
	t.Logf("%d pods were left after the faults", live)
}

package resourcequota_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/resourcequota"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is where quotas are, with a copy that may be older.
type store struct {
	mu             sync.Mutex
	quotas, copied map[string]*corev1.ResourceQuota
	writes         int
	wait           time.Duration // a write takes
	fail           func() (apply bool, err error)
}

func newStore(quotas ...*corev1.ResourceQuota) *store {
	s := &store{quotas: map[string]*corev1.ResourceQuota{}, copied: map[string]*corev1.ResourceQuota{}}
	for _, q := range quotas {
		q.ResourceVersion = "1"
		s.quotas[q.Name], s.copied[q.Name] = q, q
	}
	return s
}

func (s *store) list(m map[string]*corev1.ResourceQuota, namespace string) (all []*corev1.ResourceQuota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range m {
		if q.Namespace == namespace {
			all = append(all, q)
		}
	}
	return all
}

// replica is the local copy.
type replica struct{ *store }

func (c replica) Get(namespace string) iter.Seq[*corev1.ResourceQuota] {
	return slices.Values(c.list(c.copied, namespace))
}

func (s *store) lookup(_ context.Context, namespace string) ([]*corev1.ResourceQuota, error) {
	return s.list(s.quotas, namespace), nil
}

var quotaResource = corev1.Resource("resourcequotas")

func (s *store) Get(_ context.Context, _, name string) (*corev1.ResourceQuota, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, ok := s.quotas[name]; ok {
		return q.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(quotaResource, name)
}

func (s *store) UpdateStatus(ctx context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
	if s.wait > 0 {
		time.Sleep(s.wait)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if apply, err := s.fail(); err != nil && !apply {
			return nil, err
		} else if err != nil {
			_, _ = s.apply(q)
			return nil, err
		}
	}
	return s.apply(q)
}

func (s *store) apply(q *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
	old, ok := s.quotas[q.Name]
	if !ok {
		return nil, apierrors.NewNotFound(quotaResource, q.Name)
	}
	if old.ResourceVersion != q.ResourceVersion {
		return nil, apierrors.NewConflict(quotaResource, q.Name, errors.New("the object has been modified"))
	}
	s.writes++
	q = q.DeepCopy()
	revision, _ := strconv.Atoi(q.ResourceVersion)
	q.ResourceVersion = strconv.Itoa(revision + 1)
	s.quotas[q.Name] = q
	return q.DeepCopy(), nil
}

func (s *store) used(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []string
	for n, q := range s.quotas[name].Status.Used {
		parts = append(parts, string(n)+"="+q.String())
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func (s *store) plugin(t testing.TB) *resourcequota.Plugin {
	p, err := resourcequota.New(resourcequota.Config{ByNamespace: replica{s}, Lookup: s.lookup, Writer: s})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func amounts(list ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(list); i += 2 {
		out[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
	}
	return out
}

// quota has hard, of which nothing is used.
func quota(name string, hard ...string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	q.Spec.Hard = amounts(hard...)
	q.Status.Hard, q.Status.Used = q.Spec.Hard, corev1.ResourceList{}
	for n := range q.Spec.Hard {
		q.Status.Used[n] = resource.Quantity{}
	}
	return q
}

func pod(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}},
	}
}

func request(resource string, object, old any) *admission.Request {
	r := &admission.Request{Operation: admission.Create, Namespace: "default", Name: "web", Object: object, OldObject: old,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: resource}}
	if old != nil {
		r.Operation = admission.Update
	}
	return r
}

func Example() {
	s := newStore(quota("q", "pods", "2"))
	quotas, err := resourcequota.New(resourcequota.Config{ByNamespace: replica{s}, Lookup: s.lookup, Writer: s})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.Chain{Validators: []admission.Validator{quotas}}
	for range 3 {
		fmt.Println(chain.Validate(context.Background(), request("pods", pod(nil, nil), nil)))
	}
	// Output:
	// <nil>
	// <nil>
	// pods "web" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2
}

func TestRefusals(t *testing.T) {
	best := quota("q", "pods", "0")
	best.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	unknown := quota("q", "pods", "5", "limits.cpu", "1")
	delete(unknown.Status.Used, "pods")
	two := pod(amounts("cpu", "1"), amounts("cpu", "2"))
	two.Spec.InitContainers = []corev1.Container{{Name: "i"}, {Name: "a"}}
	empty := quota("q", "pods", "0")
	empty.Status = corev1.ResourceQuotaStatus{}
	for name, test := range map[string]struct {
		quota *corev1.ResourceQuota
		pod   *corev1.Pod
		want  string
	}{
		"fits":                {quota("q", "cpu", "1"), pod(amounts("cpu", "1"), nil), ""},
		"too much":            {quota("q", "cpu", "1", "pods", "3", "memory", "1Gi"), pod(amounts("cpu", "1500m", "memory", "2Gi"), nil), "exceeded quota: q, requested: cpu=1500m,memory=2Gi, used: cpu=0,memory=0, limited: cpu=1,memory=1Gi"},
		"unspecified":         {quota("q", "limits.cpu", "9"), pod(amounts("cpu", "1"), nil), "failed quota: q: must specify limits.cpu for: c"},
		"init containers too": {quota("q", "limits.cpu", "9", "cpu", "9"), two, "failed quota: q: must specify cpu for: a,i; limits.cpu for: a,i"},
		"other scope":         {best, pod(amounts("cpu", "1"), nil), ""},
		"scope":               {best, pod(nil, nil), "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"},
		"not counted yet":     {unknown, pod(nil, amounts("cpu", "1")), "status unknown for quota: q, resources: limits.cpu,pods"},
		"not in force yet":    {empty, pod(nil, nil), ""},
		"gpu":                 {quota("q", "requests.example.com/gpu", "1"), pod(amounts("example.com/gpu", "2"), amounts("example.com/gpu", "2")), "exceeded quota: q, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=0, limited: requests.example.com/gpu=1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(test.quota)
			err := s.plugin(t).Validate(t.Context(), request("pods", test.pod, nil))
			want := ""
			if test.want != "" {
				want = `pods "web" is forbidden: ` + test.want
			}
			if got := ""; err != nil {
				if got = err.Error(); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			} else if want != "" {
				t.Errorf("admitted, want %s", want)
			}
			if test.want != "" && s.writes > 0 {
				t.Error("a refused pod was charged")
			}
		})
	}
}

// An update is charged what it takes more.
func TestUpdates(t *testing.T) {
	s := newStore(quota("q", "requests.storage", "10Gi", "persistentvolumeclaims", "0", "services.nodeports", "3", "services.loadbalancers", "0", "gold.storageclass.storage.k8s.io/requests.storage", "4Gi"))
	p := s.plugin(t)
	claim := func(size, class string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", size)}}}
	}
	service := func(kind corev1.ServiceType, ports int) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, Ports: make([]corev1.ServicePort, ports)}}
	}
	for _, step := range []struct {
		r    *admission.Request
		ok   bool
		used string
	}{
		{request("persistentvolumeclaims", claim("5Gi", ""), claim("2Gi", "")), true, "requests.storage=3Gi"},
		{request("persistentvolumeclaims", claim("1Gi", ""), claim("9Gi", "")), true, "requests.storage=3Gi"},
		{request("persistentvolumeclaims", claim("9Gi", ""), claim("1Gi", "")), false, "requests.storage=3Gi"},
		{request("persistentvolumeclaims", claim("6Gi", "gold"), claim("1Gi", "gold")), false, "requests.storage=3Gi"},
		{request("services", service(corev1.ServiceTypeNodePort, 2), service(corev1.ServiceTypeClusterIP, 2)), true, "services.nodeports=2"},
		{request("services", service(corev1.ServiceTypeNodePort, 4), service(corev1.ServiceTypeNodePort, 2)), false, "services.nodeports=2"},
		{request("services", service(corev1.ServiceTypeLoadBalancer, 1), service(corev1.ServiceTypeNodePort, 1)), false, "services.loadbalancers=0"},
		{request("services", service(corev1.ServiceTypeClusterIP, 1), service(corev1.ServiceTypeLoadBalancer, 1)), true, "services.nodeports=2"},
		{request("persistentvolumeclaims", claim("1Gi", ""), nil), false, "persistentvolumeclaims=0"},
	} {
		if err := p.Validate(t.Context(), step.r); (err == nil) != step.ok {
			t.Errorf("Validate(%s of %s, then %s is used) = %v, want nil: %t",
				step.r.Operation, step.r.Resource.Resource, step.used, err, step.ok)
		}
		if used := s.used("q"); !strings.Contains(used, step.used) {
			t.Errorf("used %s, want %s", used, step.used)
		}
	}
	// A pod that gets a deadline moves into another quota.
	scoped := quota("short", "pods", "0")
	scoped.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	limited := pod(nil, nil)
	limited.Spec.ActiveDeadlineSeconds = new(int64)
	p = newStore(scoped).plugin(t)
	if err := p.Validate(t.Context(), request("pods", limited, pod(nil, nil))); err == nil {
		t.Error("moved into a quota that is full")
	}
	if err := p.Validate(t.Context(), request("pods", pod(nil, nil), limited)); err != nil {
		t.Errorf("moved out: %v", err)
	}
}

func TestObjectCounts(t *testing.T) {
	s := newStore(quota("q", "count/deployments.apps", "1", "secrets", "1", "count/configmaps", "0", "count/events", "0", "count/widgets.example.com", "0"))
	p := s.plugin(t)
	for _, test := range []struct {
		group, resource, subresource string
		ok                           bool
	}{
		{"apps", "deployments", "", true}, {"apps", "deployments", "", false}, {"apps", "deployments", "scale", true},
		{"apps", "replicasets", "", true}, {"", "secrets", "", true}, {"", "secrets", "", false}, {"", "configmaps", "", false},
		{"", "events", "", true}, {"example.com", "widgets", "", false},
	} {
		r := request(test.resource, &metav1.PartialObjectMetadata{}, nil)
		r.Resource.Group, r.Subresource = test.group, test.subresource
		if err := p.Validate(t.Context(), r); (err == nil) != test.ok {
			t.Errorf("Validate(create of %s in group %q, subresource %q) = %v, want nil: %t",
				test.resource, test.group, test.subresource, err, test.ok)
		}
	}
}

func TestDryRun(t *testing.T) {
	s := newStore(quota("q", "pods", "1"))
	r := request("pods", pod(nil, nil), nil)
	r.DryRun = true
	p := s.plugin(t)
	for range 3 {
		if err := p.Validate(t.Context(), r); err != nil || s.writes > 0 {
			t.Fatalf("%d writes: %v", s.writes, err)
		}
	}
	s.quotas["q"] = quota("q", "pods", "0")
	s.copied = s.quotas
	if err := p.Validate(t.Context(), r); err == nil {
		t.Error("a dry run exceeded the quota")
	}
}

// Requests that come during a write are charged by the next, together.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(quota("q", "pods", "50"))
		s.wait = time.Second
		p := s.plugin(t)
		refused := concurrently(t, p, 64)
		if refused != 14 || s.used("q") != "pods=50" {
			t.Errorf("%d of 64 refused, used %s", refused, s.used("q"))
		}
		if s.writes > 3 {
			t.Errorf("%d writes for 64 requests at a time", s.writes)
		}
		t.Logf("%d writes for 64 requests", s.writes)
	})
}

// concurrently makes n requests for a pod and returns how many were refused.
func concurrently(t *testing.T, p *resourcequota.Plugin, n int) (refused int) {
	results := make(chan error)
	for range n {
		go func() { results <- p.Validate(t.Context(), request("pods", pod(nil, nil), nil)) }()
	}
	for range n {
		if err := <-results; err != nil {
			refused++
		}
	}
	return refused
}

// A client that leaves does not affect other clients, whether or not it leads.
func TestClientsLeave(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := newStore(quota("q", "pods", "1000"))
			s.wait = time.Second
			p := s.plugin(t)
			var all sync.WaitGroup
			admitted, stayed := 0, 0
			var mu sync.Mutex
			for range 40 {
				ctx, cancel := context.WithCancel(t.Context())
				// Many leave at the very time at which they are to lead.
				start, leave := time.Duration(random.IntN(8))*500*time.Millisecond, random.IntN(2) == 0
				if leave {
					time.AfterFunc(start+time.Duration(random.IntN(4))*500*time.Millisecond, cancel)
				}
				all.Go(func() {
					defer cancel()
					time.Sleep(start)
					err := p.Validate(ctx, request("pods", pod(nil, nil), nil))
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						admitted++
					} else if !leave {
						stayed++
					}
				})
			}
			all.Wait()
			if want := fmt.Sprint("pods=", admitted); s.used("q") != want || stayed > 0 {
				t.Errorf("seed %d: used %s, want %s; %d who stayed were refused", seed, s.used("q"), want, stayed)
			}
		})
	}
}

// A stale cache never causes a refusal or an admission.
func TestOldCopy(t *testing.T) {
	s := newStore(quota("q", "pods", "2"))
	full := s.copied["q"].DeepCopy()
	full.Status.Used = amounts("pods", "2")
	s.copied = map[string]*corev1.ResourceQuota{"q": full}
	s.quotas["q"].ResourceVersion = "5"
	p := s.plugin(t)
	for i, ok := range []bool{true, true, false} {
		if err := p.Validate(t.Context(), request("pods", pod(nil, nil), nil)); (err == nil) != ok {
			t.Errorf("pod %d: %v", i, err)
		}
	}
	if got := s.used("q"); got != "pods=2" {
		t.Errorf("used %s", got)
	}
	// It is gone, which the copy does not know.
	delete(s.quotas, "q")
	if err := p.Validate(t.Context(), request("pods", pod(nil, nil), nil)); err != nil {
		t.Errorf("by a quota that is gone: %v", err)
	}
}

// Two servers share a store; copies are old, writes conflict and fail before or
// after they took effect. Never is more admitted than charged, or than allowed.
// Without failures as much is charged as is admitted, and hardly less than is allowed.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			s := newStore(quota("a", "pods", "20", "cpu", "30"), quota("b", "requests.cpu", "25"))
			s.wait = 10 * time.Millisecond
			failures, dice := seed%2 == 1, rand.New(rand.NewPCG(seed, 3)) // dice is used under the store's lock
			s.fail = func() (bool, error) {
				if failures && dice.IntN(5) == 0 {
					return dice.IntN(2) == 0, errors.New("connection lost")
				}
				return true, nil
			}
			plugins := []*resourcequota.Plugin{s.plugin(t), s.plugin(t)}
			var all sync.WaitGroup
			var mu sync.Mutex
			pods, cpu, refused := 0, 0, 0
			for range 100 {
				size, p, start := 1+random.IntN(3), plugins[random.IntN(2)], time.Duration(random.IntN(300))*time.Millisecond
				all.Go(func() {
					time.Sleep(start)
					err := p.Validate(t.Context(), request("pods", pod(amounts("cpu", fmt.Sprint(size)), nil), nil))
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						pods, cpu = pods+1, cpu+size
					case apierrors.IsInternalError(err) && failures:
					case strings.Contains(err.Error(), "exceeded quota"):
						refused++
					default:
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			all.Wait()
			if pods > 20 || cpu > 25 || refused == 0 {
				t.Errorf("seed %d: %d pods, %d cpu, %d refused", seed, pods, cpu, refused)
			}
			a, b := s.quotas["a"].Status.Used, s.quotas["b"].Status.Used["requests.cpu"]
			charged := fmt.Sprint(a.Pods().Value(), a.Cpu().Value(), b.Value())
			// A request whose write failed may have been charged.
			if failures && b.Value() < int64(cpu) || !failures && charged != fmt.Sprint(pods, cpu, cpu) {
				t.Errorf("seed %d: %s are charged for %d pods and %d cpu", seed, charged, pods, cpu)
			}
			if !failures && pods < 18 && cpu < 18 {
				t.Errorf("seed %d: only %d pods and %d cpu are admitted", seed, pods, cpu)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	if _, err := resourcequota.New(resourcequota.Config{}); err == nil {
		t.Error("an empty configuration was accepted")
	}
}

func BenchmarkPod(b *testing.B) {
	elsewhere := func(n int) (all []*corev1.ResourceQuota) {
		for i := range n {
			q := quota(fmt.Sprint("q", i), "count/secrets", "5", "services", "1", "requests.storage", "1Gi")
			if i%2 == 1 {
				q = quota(fmt.Sprint("q", i), "pods", "5", "cpu", "1", "memory", "1Gi")
				q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
			}
			all = append(all, q)
		}
		return all
	}
	matching := []*corev1.ResourceQuota{quota("q", "pods", "2000000000", "cpu", "2000000000")}
	for _, bench := range []struct {
		name   string
		quotas []*corev1.ResourceQuota
	}{{"quotas=0", nil}, {"quotas=1/match=0", elsewhere(1)}, {"quotas=10/match=0", elsewhere(10)}, {"quotas=1/match=1", matching}, {"quotas=11/match=1", append(elsewhere(10), matching...)}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			p := newStore(bench.quotas...).plugin(b)
			r := request("pods", pod(amounts("cpu", "1"), nil), nil)
			for b.Loop() {
				if err := p.Validate(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

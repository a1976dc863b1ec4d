package schedule_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	"github.com/planekit/planekit/schedule/policy"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// moody is two extenders, which answer the same question always in the same way, and what they were asked.
type moody struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newMoody(t *testing.T) *moody {
	m := &moody{}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// questions returns what was asked since the last call, in order of the texts: both scorers are asked at
// once.
func (m *moody) questions() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.asked
	m.asked = nil
	slices.Sort(asked)
	return asked
}

// mood returns a number below n that depends on words alone.
func mood(n int, words ...string) int {
	h := fnv.New32a()
	_, _ = io.WriteString(h, strings.Join(words, " "))
	return int(h.Sum32()>>8) % n
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	m.mu.Lock()
	m.asked = append(m.asked, r.URL.Path+" "+r.Header.Get("Content-Type")+" "+normal(body))
	m.mu.Unlock()
	_, who, _ := strings.Cut(r.URL.Path, "/")
	who, verb, _ := strings.Cut(who, "/")
	handler := extender.Handler{
		Filter: func(p *corev1.Pod, n *corev1.Node) schedule.Verdict {
			switch mood(7, who, p.Name, n.Name) {
			case 0:
				return schedule.Refuse("node(s) were not liked by " + who)
			case 1:
				return schedule.RefuseAlways("node(s) were hated")
			}
			return schedule.Fits
		},
		// Scores are out of range now and then.
		Prioritize: func(p *corev1.Pod, n *corev1.Node) int64 { return int64(mood(14, "score", who, p.Name, n.Name) - 2) },
		Preempt: func(_ context.Context, args *extender.PreemptionArgs) (map[string]*extender.MetaVictims, error) {
			return calm(who, args), nil
		},
		Bind: func(_ context.Context, args *extender.BindingArgs) error {
			if mood(3, args.PodName) == 0 {
				return errors.New("not bound")
			}
			return nil
		},
	}
	var args struct{ Pod *corev1.Pod }
	if err := json.Unmarshal(body, &args); err == nil && args.Pod != nil {
		switch mood(12, verb, who, args.Pod.Name) {
		case 0:
			w.WriteHeader(500)
			return
		case 1:
			if verb == "filter" {
				_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{Error: who + " is out"})
				return
			}
		}
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	handler.ServeHTTP(w, r)
}

// calm leaves out some nodes and some victims.
func calm(who string, args *extender.PreemptionArgs) map[string]*extender.MetaVictims {
	all := args.NodeNameToMetaVictims
	if all == nil {
		all = map[string]*extender.MetaVictims{}
	}
	for node, v := range args.NodeNameToVictims {
		meta := &extender.MetaVictims{NumPDBViolations: v.NumPDBViolations}
		for _, p := range v.Pods {
			meta.Pods = append(meta.Pods, &extender.MetaPod{UID: string(p.UID)})
		}
		all[node] = meta
	}
	for node, v := range all {
		switch mood(4, who, args.Pod.Name, node) {
		case 0:
			delete(all, node)
		case 1:
			v.Pods, v.NumPDBViolations = v.Pods[:1], v.NumPDBViolations+1
		}
	}
	return all
}

// normal returns a question with its nodes in order. All else stays byte by byte.
func normal(body []byte) string {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return string(body)
	}
	var list struct {
		Metadata json.RawMessage   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if nodes := fields["Nodes"]; len(nodes) > 0 && string(nodes) != "null" {
		if err := json.Unmarshal(nodes, &list); err != nil {
			return string(body)
		}
		slices.SortFunc(list.Items, func(a, b json.RawMessage) int { return cmp.Compare(string(a), string(b)) })
		fields["Nodes"], _ = json.Marshal(list)
	}
	var names []string
	if err := json.Unmarshal(fields["NodeNames"], &names); err == nil && names != nil {
		slices.Sort(names)
		fields["NodeNames"], _ = json.Marshal(names)
	}
	var text strings.Builder
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&text, "%s: %s\n", field, fields[field])
	}
	return text.String()
}

// extenders returns the configuration of both extenders. The second one can be ignored, and comes first in
// the list.
func (m *moody) extenders() []config.Extender {
	return []config.Extender{
		{URLPrefix: m.URL + "/second/", FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt", Weight: 1, Ignorable: true},
		{URLPrefix: m.URL + "/first", FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt", BindVerb: "bind", Weight: 3, NodeCacheCapable: true},
	}
}

// clients returns the same extenders of planekit.
func clients(t *testing.T, extenders []config.Extender) (list []*extender.Client) {
	t.Helper()
	for _, c := range extenders {
		client, err := extender.New(extender.Config{
			URLPrefix: c.URLPrefix, FilterVerb: c.FilterVerb, PrioritizeVerb: c.PrioritizeVerb, PreemptVerb: c.PreemptVerb, BindVerb: c.BindVerb,
			Weight: c.Weight, Ignorable: c.Ignorable, NodeCacheCapable: c.NodeCacheCapable,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		list = append(list, client)
	}
	return list
}

// TestExtenders decides about random pods in random clusters together with two extenders, as the stock
// kube-scheduler does: the extenders are asked the same, byte by byte but for the order of nodes, and the pod
// goes to the same node, or is refused in the same words.
func TestExtenders(t *testing.T) {
	m := newMoody(t)
	outcomes := map[string]int{}
	for seed := range seeds(t) {
		w := randomcluster.New(seed)
		for _, n := range w.Nodes {
			for i := range n.Status.Images {
				n.Status.Images[i].SizeBytes = 500 << 20 // kube-scheduler's cache takes an image for equal on all nodes
			}
		}
		list := m.extenders()
		// kube-scheduler forgets the pods on nodes that it gets back as objects, and scores them as empty.
		if list[0].NodeCacheCapable = seed%2 == 0; !list[0].NodeCacheCapable {
			list[0].FilterVerb = ""
		}
		theirs, ours := newStockScheduler(t, w, list), runOurs(t, w, list)
		for range 20 {
			pod := w.Pod()
			pod.Spec.SchedulerName = corev1.DefaultSchedulerName
			got := ours.decide(pod)
			gotAsked := m.questions()
			want := theirs.decide(t, pod)
			wantAsked := m.questions()
			if !slices.Equal(gotAsked, wantAsked) {
				t.Fatalf("cluster %d, %s: asked\n%q, kube-scheduler\n%q", seed, pod.Name, gotAsked, wantAsked)
			}
			// Ties are broken at random.
			for tries := 0; got != want && strings.HasPrefix(want, "node ") && tries < 200; tries++ {
				want = theirs.decide(t, pod)
			}
			m.questions()
			if got != want {
				t.Fatalf("cluster %d, %s: %s, for kube-scheduler %s", seed, pod.Name, got, want)
			}
			outcomes[strings.Fields(got)[0]]++
			for _, word := range []string{"liked", "hated", "out", "500"} {
				if strings.Contains(got, word) {
					outcomes[word]++
				}
			}
		}
	}
	t.Log(outcomes)
	for _, outcome := range []string{"node", "Unschedulable:", "SchedulerError:", "liked", "hated", "out", "500"} {
		if *clusters >= 100 && outcomes[outcome] == 0 {
			t.Errorf("no outcome has %q", outcome)
		}
	}
}

// stockScheduler is a whole kube-scheduler over a fixed cluster.
type stockScheduler struct{ *scheduler.Scheduler }

func newStockScheduler(t *testing.T, w *randomcluster.Cluster, extenders []config.Extender) stockScheduler {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	api := fake.NewClientset(objects(w)...)
	factory := informers.NewSharedInformerFactory(api, 0)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	s, err := scheduler.New(ctx, api, factory, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(stockProfile(t)), scheduler.WithExtenders(extenders...))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range w.Nodes {
		s.Cache.AddNode(klog.Background(), n)
	}
	for _, p := range w.Pods {
		if err := s.Cache.AddPod(klog.Background(), p); err != nil {
			t.Fatal(err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	snapshot := s.Profiles[corev1.DefaultSchedulerName].SnapshotSharedLister().(*schedulercache.Snapshot)
	if err := s.Cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
		t.Fatal(err)
	}
	return stockScheduler{s}
}

// decide returns the node of a pod, or the reason and the message of its condition.
func (s stockScheduler) decide(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.SchedulePod(t.Context(), s.Profiles[corev1.DefaultSchedulerName], framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
	if _, unfit := errors.AsType[*framework.FitError](err); unfit {
		return corev1.PodReasonUnschedulable + ": " + err.Error()
	} else if err != nil {
		return corev1.PodReasonSchedulerError + ": " + err.Error()
	}
	return "node " + result.SuggestedHost
}

// ourScheduler is a running scheduler over a fixed cluster.
type ourScheduler struct {
	pods    *localcache.Map[*corev1.Pod]
	decided chan string
}

func runOurs(t *testing.T, w *randomcluster.Cluster, extenders []config.Extender) *ourScheduler {
	t.Helper()
	defaults := spreadDefaults(t, w)
	volumes := volumePredicates(t, w)
	volumes[2] = volumes[2].(policy.VolumeBinder).Within(-1) // without binding them
	s := &ourScheduler{localcache.NewMap(w.Pods...), make(chan string)}
	c := schedule.Config{
		Predicates: append(volumes, predicates.DefaultSpreading(defaults)...), Priorities: priorities.DefaultSpreading(defaults),
		Nodes: localcache.NewMap(w.Nodes...), Pods: s.pods, Namespaces: localcache.NewMap(w.Namespaces...),
		Bind: func(ctx context.Context, _ *corev1.Pod, node string) error { return s.say(ctx, "node "+node) },
		SetCondition: func(ctx context.Context, _ *corev1.Pod, c corev1.PodCondition) error {
			return s.say(ctx, c.Reason+": "+c.Message)
		},
	}
	extender.Add(&c, clients(t, extenders)...)
	for i := range c.Extenders {
		c.Extenders[i].Bind = nil // Config.Bind says which node it is
	}
	running, err := schedule.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *ourScheduler) say(ctx context.Context, decided string) error {
	select {
	case s.decided <- decided:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *ourScheduler) decide(pod *corev1.Pod) string {
	s.pods.Put(pod)
	decided := <-s.decided
	s.pods.Delete(localcache.KeyOf(pod))
	return decided
}

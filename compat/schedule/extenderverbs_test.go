package schedule_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

// TestExtenderVerbs asks extenders as the stock kube-scheduler's client of extenders does, and reads the same
// answers.
func TestExtenderVerbs(t *testing.T) {
	m := newMoody(t)
	changed := 0
	for _, c := range m.extenders() {
		theirs, err := scheduler.NewHTTPExtender(&c)
		if err != nil {
			t.Fatal(err)
		}
		ours := clients(t, []config.Extender{c})[0].Extender()
		w := randomcluster.New(7)
		nodes, err := schedulercache.NewSnapshot(w.Pods, w.Nodes).NodeInfos().List()
		if err != nil {
			t.Fatal(err)
		}
		found, theirFound := everyVictim(w)
		for range 30 {
			pod := w.Pod()
			m.same(t, pod, func() string {
				accepted, failed, unresolvable, err := theirs.Filter(pod, nodes)
				return fmt.Sprint(theirNames(accepted), theirFailed(accepted, failed, unresolvable), err)
			}, func() string {
				accepted, refused, err := ours.Filter(t.Context(), pod, w.Nodes)
				slices.Sort(accepted)
				return fmt.Sprint(accepted, ourFailed(refused), err)
			})
			m.same(t, pod, func() string {
				list, weight, err := theirs.Prioritize(pod, nodes)
				return fmt.Sprint(theirScores(list, weight), err)
			}, func() string {
				scores, err := ours.Prioritize(t.Context(), pod, w.Nodes)
				return fmt.Sprint(scores, err)
			})
			m.same(t, pod, func() string {
				want, err := theirs.ProcessPreemption(pod, theirFound, schedulercache.NewSnapshot(w.Pods, w.Nodes).NodeInfos())
				if err == nil && len(want) < len(theirFound) {
					changed++
				}
				return fmt.Sprint(theirUIDs(want), err)
			}, func() string {
				got, err := ours.Preempt(t.Context(), pod, found)
				return fmt.Sprint(uids(got), err)
			})
			if !theirs.IsBinder() {
				continue
			}
			m.same(t, pod, func() string {
				return fmt.Sprint(theirs.Bind(&corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"},
				}))
			}, func() string { return fmt.Sprint(ours.Bind(t.Context(), pod, "node-0")) })
		}
	}
	if changed == 0 {
		t.Error("no extender left out a node")
	}
}

// same checks that both ask the same and understand the same.
func (m *moody) same(t *testing.T, pod *corev1.Pod, theirs, ours func() string) {
	t.Helper()
	want := theirs()
	wantAsked := m.questions()
	got := ours()
	if gotAsked := m.questions(); !slices.Equal(gotAsked, wantAsked) {
		t.Fatalf("%s: asked\n%q, kube-scheduler\n%q", pod.Name, gotAsked, wantAsked)
	}
	if got != want {
		t.Fatalf("%s: %s, for kube-scheduler %s", pod.Name, got, want)
	}
}

// everyVictim returns all pods on each node as victims.
func everyVictim(w *randomcluster.Cluster) (found []schedule.Preemption, theirs map[string]*extenderv1.Victims) {
	theirs = map[string]*extenderv1.Victims{}
	for _, n := range w.Nodes {
		p := schedule.Preemption{Node: n.Name}
		v := &extenderv1.Victims{}
		for _, pod := range w.Pods {
			if pod.Spec.NodeName == n.Name {
				p.Victims, v.Pods = append(p.Victims, schedule.NewPodInfo(pod)), append(v.Pods, pod)
			}
		}
		if len(p.Victims) > 0 {
			found, theirs[n.Name] = append(found, p), v
		}
	}
	return found, theirs
}

func theirNames(nodes []fwk.NodeInfo) (names []string) {
	for _, n := range nodes {
		names = append(names, n.Node().Name)
	}
	slices.Sort(names)
	return names
}

func theirFailed(accepted []fwk.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap) map[string]string {
	all := map[string]string{}
	for node, reason := range failed {
		all[node] = reason
	}
	for node, reason := range unresolvable {
		all[node] = reason + " for good"
	}
	for _, n := range accepted {
		delete(all, n.Node().Name)
	}
	return all
}

func ourFailed(refused map[string]schedule.Verdict) map[string]string {
	all := map[string]string{}
	for node, v := range refused {
		all[node] = v.Reasons[0]
		if v.Lasting {
			all[node] += " for good"
		}
	}
	return all
}

// theirScores returns what kube-scheduler adds to the scores of nodes.
func theirScores(list *extenderv1.HostPriorityList, weight int64) map[string]int64 {
	scores := map[string]int64{}
	if list != nil {
		for _, host := range *list {
			scores[host.Host] += host.Score * weight * (fwk.MaxNodeScore / extenderv1.MaxExtenderPriority)
		}
	}
	return scores
}

func uids(all map[string]schedule.VictimUIDs) map[string]string {
	texts := map[string]string{}
	for node, v := range all {
		texts[node] = fmt.Sprint(v.UIDs, v.Violations)
	}
	return texts
}

func theirUIDs(all map[string]*extenderv1.Victims) map[string]string {
	texts := map[string]string{}
	for node, v := range all {
		var list []string
		for _, p := range v.Pods {
			list = append(list, string(p.UID))
		}
		texts[node] = fmt.Sprint(list, v.NumPDBViolations)
	}
	return texts
}

// TestExtenderTypes compares the fields of questions and answers with those of kube-scheduler's.
func TestExtenderTypes(t *testing.T) {
	for _, pair := range [][2]any{
		{extender.Args{}, extenderv1.ExtenderArgs{}}, {extender.FilterResult{}, extenderv1.ExtenderFilterResult{}},
		{extender.HostPriority{}, extenderv1.HostPriority{}},
		{extender.PreemptionArgs{}, extenderv1.ExtenderPreemptionArgs{}}, {extender.PreemptionResult{}, extenderv1.ExtenderPreemptionResult{}},
		{extender.Victims{}, extenderv1.Victims{}}, {extender.MetaVictims{}, extenderv1.MetaVictims{}}, {extender.MetaPod{}, extenderv1.MetaPod{}},
		{extender.BindingArgs{}, extenderv1.ExtenderBindingArgs{}}, {extender.BindingResult{}, extenderv1.ExtenderBindingResult{}},
	} {
		got, want := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1])
		if got.NumField() != want.NumField() {
			t.Errorf("%v has %d fields, %v %d", got, got.NumField(), want, want.NumField())
			continue
		}
		for i := range got.NumField() {
			a, b := got.Field(i), want.Field(i)
			if a.Name != b.Name || a.Tag != b.Tag || a.Type.Kind() != b.Type.Kind() {
				t.Errorf("%v has %s %v %q, %v %s %v %q", got, a.Name, a.Type, a.Tag, want, b.Name, b.Type, b.Tag)
			}
		}
	}
	if extender.MaxScore != extenderv1.MaxExtenderPriority || extender.DefaultTimeout != scheduler.DefaultExtenderTimeout {
		t.Error("a constant differs")
	}
}

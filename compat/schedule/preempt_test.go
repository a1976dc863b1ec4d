package schedule_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// TestPreemption lets pods that fit no node preempt others as the stock kube-scheduler would: each node has
// the same victims, and the chosen one is as good as its choice. It says the same where it does not help.
func TestPreemption(t *testing.T) {
	helped := 0
	for seed := range seeds(t) {
		w := randomcluster.New(seed)
		for _, p := range w.Pods {
			// kube-scheduler counts a pod that is ending in no domain, and subtracts it as a victim.
			p.DeletionTimestamp = nil
		}
		theirs, ours := newStock(t, w), newOurs(t, w)
		for range podsPerCluster {
			pod := w.Pod()
			info := schedule.NewPodInfo(pod)
			_, unfit := ours.Decide(info)
			if unfit == nil {
				continue
			}
			candidates := theirs.candidates(t, pod, w.Budgets)
			choice, ok := ours.Preempt(info, unfit, w.Budgets)
			if ok != (len(candidates) > 0) {
				t.Fatalf("cluster %d, %s: preemption helps: %t, for kube-scheduler %d nodes", seed, pod.Name, ok, len(candidates))
			}
			if !ok {
				continue
			}
			helped++
			i := slices.IndexFunc(candidates, func(c preemption.Candidate) bool { return c.Name() == choice.Node })
			if i < 0 {
				t.Fatalf("cluster %d, %s: preempts on %s, which is none of kube-scheduler's nodes", seed, pod.Name, choice.Node)
			}
			if got, want := keys(choice), theirKeys(candidates[i]); !slices.Equal(got, want) {
				t.Fatalf("cluster %d, %s on %s: victims are %v, for kube-scheduler %v", seed, pod.Name, choice.Node, got, want)
			}
			best := theirs.preempts.Evaluator.SelectCandidate(t.Context(), candidates)
			if compare(candidates[i], best) != 0 {
				t.Fatalf("cluster %d, %s: chose %s, kube-scheduler %s", seed, pod.Name, choice.Node, best.Name())
			}
		}
	}
	if helped < 20 {
		t.Errorf("preemption helped only %d pods", helped)
	}
}

// candidates returns the victims on each node where preemption helps.
func (s *stock) candidates(t *testing.T, pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) []preemption.Candidate {
	t.Helper()
	state := framework.NewCycleState()
	if _, status, _ := s.framework.RunPreFilterPlugins(t.Context(), state, pod); status.IsRejected() {
		return nil
	} else if !status.IsSuccess() {
		t.Fatal(status)
	}
	var nodes []fwk.NodeInfo
	for _, n := range s.nodes {
		if status := s.framework.RunFilterPlugins(t.Context(), state, pod, n); status.Code() == fwk.Unschedulable {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	candidates, _, err := s.preempts.Evaluator.DryRunPreemption(t.Context(), state, pod, nodes, budgets, 0, int32(len(nodes)))
	if err != nil {
		t.Fatal(err)
	}
	return candidates
}

func keys(p schedule.Preemption) (names []string) {
	for _, v := range p.Victims {
		names = append(names, v.Pod.Name)
	}
	slices.Sort(names)
	return names
}

func theirKeys(c preemption.Candidate) (names []string) {
	for _, v := range c.Victims().Pods {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return names
}

// compare compares candidates by all that kube-scheduler looks at.
func compare(a, b preemption.Candidate) int {
	sum := func(c preemption.Candidate) (sum int64) {
		for _, p := range c.Victims().Pods {
			sum += int64(*p.Spec.Priority) + math.MaxInt32 + 1
		}
		return sum
	}
	return cmp.Or(
		cmp.Compare(a.Victims().NumPDBViolations, b.Victims().NumPDBViolations),
		cmp.Compare(*a.Victims().Pods[0].Spec.Priority, *b.Victims().Pods[0].Spec.Priority),
		cmp.Compare(sum(a), sum(b)),
		cmp.Compare(len(a.Victims().Pods), len(b.Victims().Pods)),
		util.GetEarliestPodStartTime(b.Victims()).Compare(util.GetEarliestPodStartTime(a.Victims()).Time),
	)
}

package deployment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodsTakeRoom checks that surplus pods of an old ReplicaSet, which is already scaled down,
// take the room of new pods until they are deleted.
func TestPodsTakeRoom(t *testing.T) {
	d := planned(5, 0, 2)
	sets := []*appsv1.ReplicaSet{plannedSet(0, 2, 5, 5), plannedSet(1, 0, 5, 5)}
	for left, want := range map[int32]string{3: "2 0", 2: "3 0", 0: "5 0"} {
		sets[1].Status.Replicas = left
		if got := sizes(sets, planDeployment(d, sets, podsStay)); got != want {
			t.Errorf("with %d pods left: sizes %s, want %s", left, got, want)
		}
	}
}

// TestHistoryInUse keeps what is beyond the limit and still in use, or not known
// not to be, or about to go anyway.
func TestHistoryInUse(t *testing.T) {
	for name, test := range map[string]struct {
		change func(rs *appsv1.ReplicaSet) // the oldest of three old ones
		want   string
	}{
		"of no use":          {func(*appsv1.ReplicaSet) {}, "v3 v2"},
		"with a pod":         {func(rs *appsv1.ReplicaSet) { rs.Status.Replicas = 1 }, "v2"},
		"not looked at":      {func(rs *appsv1.ReplicaSet) { rs.Generation = 1 }, "v2"},
		"goes":               {func(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = new(metav1.Now()) }, "v2"},
		"of a late revision": {func(rs *appsv1.ReplicaSet) { rs.Annotations[revisionAnnotation] = "8" }, "v2 v3"},
		"of the last":        {func(rs *appsv1.ReplicaSet) { rs.Annotations[revisionAnnotation] = "88" }, "v2 v1"},
	} {
		d := planned(3, 1, 0)
		d.Spec.Paused = true // or a pod that is left keeps all
		d.Spec.RevisionHistoryLimit = new(int32(1))
		sets := []*appsv1.ReplicaSet{plannedSet(0, 3, 3, 4), plannedSet(1, 0, 3, 4), plannedSet(2, 0, 3, 4), plannedSet(3, 0, 3, 4)}
		sets[0].Annotations[revisionAnnotation] = "99"
		test.change(sets[3])
		var got []string
		for _, rs := range planDeployment(d, sets, podsStay).delete {
			got = append(got, rs.Name)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: deletes %v, want %s", name, got, test.want)
		}
	}
}

// TestHistoryWaits: nothing is deleted before the rollout is over.
func TestHistoryWaits(t *testing.T) {
	d := planned(3, 0, 1)
	d.Spec.RevisionHistoryLimit = new(int32(0))
	for name, test := range map[string]struct {
		change func(now, old *appsv1.ReplicaSet)
		want   int
	}{
		"over":               {func(_, _ *appsv1.ReplicaSet) {}, 1},
		"one unavailable":    {func(now, _ *appsv1.ReplicaSet) { now.Status.AvailableReplicas = 2 }, 0},
		"one not there":      {func(now, _ *appsv1.ReplicaSet) { now.Status.Replicas = 2 }, 0},
		"an old one remains": {func(_, old *appsv1.ReplicaSet) { old.Status.Replicas = 1 }, 0},
	} {
		sets := []*appsv1.ReplicaSet{plannedSet(0, 3, 3, 3), plannedSet(1, 0, 3, 3), plannedSet(2, 0, 3, 3)}
		test.change(sets[0], sets[1])
		if test.want == 1 {
			sets = sets[:2]
		}
		if plan := planDeployment(d, sets, podsStay); len(plan.delete) != test.want {
			t.Errorf("%s: deletes %d", name, len(plan.delete))
		}
	}
}

// TestOldestIsCurrent: of ReplicaSets of the present template the oldest is in
// use, and of those of an age the first by name.
func TestOldestIsCurrent(t *testing.T) {
	d := planned(3, 1, 0)
	older, newer := plannedSet(0, 0, 3, 4), plannedSet(0, 0, 3, 4)
	older.Name, newer.Name = "z", "a"
	newer.CreationTimestamp = metav1.NewTime(older.CreationTimestamp.Add(time.Second))
	if got := planDeployment(d, []*appsv1.ReplicaSet{newer, older}, podsStay).current; got != older {
		t.Errorf("in use is %s", got.Name)
	}
	newer.CreationTimestamp = older.CreationTimestamp
	if got := planDeployment(d, []*appsv1.ReplicaSet{older, newer}, podsStay).current; got != newer {
		t.Errorf("of an age: in use is %s", got.Name)
	}
}

// TestSetFollows: a ReplicaSet, new or in use, has the waiting time and the
// annotations of the Deployment, but none of those that are about the Deployment
// itself. Old ones stay as they are.
func TestSetFollows(t *testing.T) {
	d := planned(3, 2, 0)
	d.Spec.MinReadySeconds = 7
	d.Annotations = map[string]string{"cause": "edit", corev1.LastAppliedConfigAnnotation: "{}", revisionAnnotation: "77",
		revisionHistoryAnnotation: "1,2", desiredAnnotation: "77", maxAnnotation: "77"}
	old := plannedSet(1, 0, 3, 5)
	want := map[string]string{"cause": "edit", revisionAnnotation: "9", desiredAnnotation: "3", maxAnnotation: "5"}
	check := func(name string, rs *appsv1.ReplicaSet) {
		t.Helper()
		if rs == nil || rs.Spec.MinReadySeconds != 7 || !maps.Equal(rs.Annotations, want) {
			t.Errorf("%s: the ReplicaSet is %+v, want MinReadySeconds 7 and the annotations %v", name, rs, want)
		}
	}
	check("new", planDeployment(d, []*appsv1.ReplicaSet{old}, podsStay).create)
	used := plannedSet(0, 3, 3, 5)
	plan := planDeployment(d, []*appsv1.ReplicaSet{used, old}, podsStay)
	if len(plan.update) != 1 || plan.update[0].from != used {
		t.Fatalf("%d updates", len(plan.update))
	}
	check("in use", plan.update[0].to)
	if plan := planDeployment(d, []*appsv1.ReplicaSet{plan.update[0].to, old}, podsStay); len(plan.update) != 0 || plan.revision != "9" {
		t.Errorf("%d more updates, revision %s", len(plan.update), plan.revision)
	}
	used.Annotations, used.Spec.MinReadySeconds = maps.Clone(want), 6
	plan = planDeployment(d, []*appsv1.ReplicaSet{used, old}, podsStay)
	if len(plan.update) != 1 {
		t.Fatalf("%d updates for the waiting time alone", len(plan.update))
	}
	check("in use", plan.update[0].to)
}

// TestOnlyOneIsScaled: a Deployment that is paused and has no ReplicaSet with
// pods grows by the one in use, or else by the newest.
func TestOnlyOneIsScaled(t *testing.T) {
	for name, test := range map[string]struct {
		template string
		sizes    []int
		want     string
	}{
		"the one in use":    {"v1", []int{0, 0, 0}, "0 3 0"},
		"the newest":        {"v9", []int{0, 0, 0}, "3 0 0"},
		"the one with pods": {"v1", []int{0, 0, 2}, "0 0 3"},
	} {
		d := planned(3, 1, 0)
		d.Spec.Paused, d.Spec.Template.Spec.Hostname = true, test.template
		var sets []*appsv1.ReplicaSet
		for i, size := range test.sizes {
			sets = append(sets, plannedSet(i, size, 2, 3))
		}
		slices.Reverse(sets)
		plan := planDeployment(d, sets, podsStay)
		slices.Reverse(sets)
		if got := sizes(sets, plan); got != test.want {
			t.Errorf("%s: sizes %s, want %s", name, got, test.want)
		}
	}
}

// TestRecreateKeepsItsOldSets checks that scaling a Deployment that recreates, even a paused one,
// does not divide the size between several ReplicaSets.
func TestRecreateKeepsItsOldSets(t *testing.T) {
	d := planned(6, 0, 1)
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	d.Spec.Paused = true
	sets := []*appsv1.ReplicaSet{plannedSet(0, 2, 3, 3), plannedSet(1, 1, 3, 3)}
	if plan := planDeployment(d, sets, podsStay); len(plan.update) != 0 {
		t.Errorf("sizes %s", sizes(sets, plan))
	}
}

// TestSharesWithoutAnnotation: where a ReplicaSet does not tell how many pods there
// could be before, or tells nonsense, there were those that the status counts.
func TestSharesWithoutAnnotation(t *testing.T) {
	for _, text := range []string{"", "0", "-5", "x", "2147483648"} {
		d := planned(10, 0, 1)
		d.Status.Replicas = 5
		sets := []*appsv1.ReplicaSet{plannedSet(0, 2, 5, 5), plannedSet(1, 3, 5, 5)}
		sets[0].Annotations[maxAnnotation] = text
		if got := sizes(sets, planDeployment(d, sets, podsStay)); got != "4 6" {
			t.Errorf("%q: sizes %s, want 4 6", text, got)
		}
	}
	d := planned(10, 0, 1)
	sets := []*appsv1.ReplicaSet{plannedSet(0, 2, 5, 0), plannedSet(1, 3, 5, 0)}
	if got, want := sizes(sets, planDeployment(d, sets, podsStay)), fmt.Sprint(2, " ", 8); got != want {
		t.Errorf("nothing known: sizes %s, want %s", got, want)
	}
}

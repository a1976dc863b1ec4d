package deployment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// planned is a Deployment named web with the image v0 wanted, for planning.
func planned(want, surge, unavailable int) *appsv1.Deployment {
	n, s, u := int32(want), intstr.FromInt(surge), intstr.FromInt(unavailable)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web-uid", Annotations: map[string]string{}},
		Spec: appsv1.DeploymentSpec{Replicas: &n, Strategy: appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}}},
	}
	d.Spec.Template.Labels = map[string]string{"app": "web"}
	d.Spec.Template.Spec.Hostname = "v0"
	return d
}

// plannedSet returns a settled ReplicaSet for the image v<version> with size available pods and
// annotations of the given numbers. The lower the version, the newer it is.
func plannedSet(version, size, desired, most int) *appsv1.ReplicaSet {
	n := int32(size)
	name := fmt.Sprintf("v%d", version)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-" + "v", Annotations: map[string]string{
			desiredAnnotation: strconv.Itoa(desired), maxAnnotation: strconv.Itoa(most), revisionAnnotation: strconv.Itoa(9 - version)},
			CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-version), 0))},
		Spec:   appsv1.ReplicaSetSpec{Replicas: &n},
		Status: appsv1.ReplicaSetStatus{Replicas: n, ReadyReplicas: n, AvailableReplicas: n},
	}
	rs.Spec.Template.Labels = map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: name}
	rs.Spec.Template.Spec.Hostname = name
	return rs
}

func podsStay(*appsv1.ReplicaSet) bool { return true }

// sizes returns the sizes that plan gives sets.
func sizes(sets []*appsv1.ReplicaSet, plan deploymentPlan) string {
	var list []string
	for _, rs := range sets {
		size := *rs.Spec.Replicas
		for _, u := range plan.update {
			if u.from == rs {
				size = *u.to.Spec.Replicas
			}
		}
		list = append(list, strconv.Itoa(int(size)))
	}
	return strings.Join(list, " ")
}

// TestProportionalScaling has the results of kube-controller-manager. The sizes
// are those of the ReplicaSets from the newest on.
func TestProportionalScaling(t *testing.T) {
	for name, test := range map[string]struct {
		from, to, surgeFrom, surge int
		noCurrent                  bool
		sizes                      []int
		want                       string
	}{
		"up, one":                   {from: 10, to: 12, sizes: []int{10}, want: "12"},
		"down, one":                 {from: 10, to: 5, sizes: []int{10}, want: "5"},
		"up":                        {from: 5, to: 10, sizes: []int{2, 3}, want: "4 6"},
		"down":                      {from: 5, to: 3, sizes: []int{2, 3}, want: "1 2"},
		"down, and one to nothing":  {from: 9, to: 4, sizes: []int{8, 1}, want: "4 0"},
		"up, three":                 {from: 7, to: 10, sizes: []int{2, 3, 2}, want: "3 4 3"},
		"down, three":               {from: 13, to: 8, sizes: []int{2, 8, 3}, want: "1 5 2"},
		"left over goes to the new": {from: 3, to: 4, sizes: []int{1, 1, 1}, want: "2 1 1"},
		"left over is of the old":   {from: 3, to: 2, sizes: []int{1, 1, 1}, want: "1 1 0"},
		"no current":                {from: 4, to: 5, noCurrent: true, sizes: []int{2, 2}, want: "3 2"},
		"to nothing":                {from: 6, to: 0, sizes: []int{3, 2, 1}, want: "0 0 0"},
		"with surge":                {from: 10, to: 20, surgeFrom: 2, surge: 2, sizes: []int{6, 6}, want: "11 11"},
		"surge and size":            {from: 10, to: 50, surgeFrom: 3, surge: 6, sizes: []int{5, 8}, want: "22 34"},
		"size and template":         {from: 10, to: 14, noCurrent: true, sizes: []int{7, 3}, want: "10 4"},
		"template, one":             {from: 10, to: 14, noCurrent: true, sizes: []int{10}, want: "14"},
	} {
		t.Run(name, func(t *testing.T) {
			d := planned(test.to, test.surge, 1)
			if test.noCurrent {
				d.Spec.Template.Spec.Hostname = "another"
			}
			var sets []*appsv1.ReplicaSet
			for i, size := range test.sizes {
				sets = append(sets, plannedSet(i, size, test.from, test.from+test.surgeFrom))
			}
			plan := planDeployment(d, sets, podsStay)
			if got := sizes(sets, plan); got != test.want || plan.create != nil || plan.rolling {
				t.Errorf("sizes %s, want %s; creates %t, rolling %t", got, test.want, plan.create != nil, plan.rolling)
			}
			for _, u := range plan.update {
				if *u.from.Spec.Replicas > 0 && u.to.Annotations[desiredAnnotation] != strconv.Itoa(test.to) {
					t.Errorf("%s is annotated %v", u.to.Name, u.to.Annotations)
				}
			}
		})
	}
}

// TestScalingHalfDone goes on where a process died after the first of several
// updates: the sum must be what it would have been.
func TestScalingHalfDone(t *testing.T) {
	d := planned(50, 6, 1)
	sets := []*appsv1.ReplicaSet{plannedSet(0, 5, 10, 13), plannedSet(1, 8, 10, 13)}
	whole := planDeployment(d, sets, podsStay)
	for _, done := range whole.update {
		var half []*appsv1.ReplicaSet
		for _, rs := range sets {
			rs = rs.DeepCopy()
			if rs.Name == done.to.Name {
				rs = done.to.DeepCopy()
				rs.Status.Replicas = *rs.Spec.Replicas
			}
			half = append(half, rs)
		}
		plan := planDeployment(d, half, podsStay)
		if got := sizes(half, plan); got != "22 34" {
			t.Errorf("after %s: sizes %s, want 22 34", done.to.Name, got)
		}
	}
}

// TestScalingWaits checks that no ReplicaSet grows while there are surplus pods.
func TestScalingWaits(t *testing.T) {
	d := planned(10, 0, 1)
	sets := []*appsv1.ReplicaSet{plannedSet(0, 5, 5, 5), plannedSet(1, 0, 5, 5)}
	sets[1].Status.Replicas = 1
	if plan := planDeployment(d, sets, podsStay); len(plan.update) != 0 {
		t.Errorf("sizes %s while a pod is too many", sizes(sets, plan))
	}
	sets[1].Status.Replicas = 0
	sets[1].Generation = 2
	if plan := planDeployment(d, sets, podsStay); len(plan.update) != 0 {
		t.Errorf("sizes %s before a ReplicaSet was looked at", sizes(sets, plan))
	}
	sets[1].Status.ObservedGeneration = 2
	if got := sizes(sets, planDeployment(d, sets, podsStay)); got != "10 0" {
		t.Errorf("sizes %s, want 10 0", got)
	}
}

// TestScalingEnds: whatever the sizes and annotations are, one step of scaling
// is followed by none, and then the rollout goes on.
func TestScalingEnds(t *testing.T) {
	for range 2000 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		d := planned(r.IntN(10), r.IntN(3), r.IntN(3))
		var sets []*appsv1.ReplicaSet
		for i := range 1 + r.IntN(3) {
			rs := plannedSet(i, r.IntN(6), r.IntN(10), r.IntN(12))
			if r.IntN(4) == 0 {
				rs.Annotations = nil
			}
			sets = append(sets, rs)
		}
		if r.IntN(3) == 0 {
			d.Spec.Template.Spec.Hostname = "another"
		}
		var trace []string
		for step := 0; ; step++ {
			plan := planDeployment(d, sets, podsStay)
			trace = append(trace, fmt.Sprintf("%s rolling %t", sizes(sets, plan), plan.rolling))
			if plan.rolling {
				break
			}
			if step > 2 {
				t.Fatalf("seed %d: scales %d for ever: %q", seed, *d.Spec.Replicas, trace)
			}
			for _, u := range plan.update {
				*u.from = *u.to
				u.from.Status.Replicas = *u.from.Spec.Replicas
			}
		}
	}
}

// TestScalingWhileOneGoes checks that a ReplicaSet that is being deleted, which may take long, gets
// the annotation of the number of replicas like the other ones. Otherwise a Deployment that is
// scaled meanwhile would be scaled forever and not rolled out.
func TestScalingWhileOneGoes(t *testing.T) {
	for going, want := range map[int]string{0: "3 4", 1: "3 4"} {
		d := planned(7, 0, 1)
		sets := []*appsv1.ReplicaSet{plannedSet(0, 2, 5, 5), plannedSet(1, 3, 5, 5)}
		sets[going].DeletionTimestamp = new(metav1.Now())
		plan := planDeployment(d, sets, podsStay)
		if got := sizes(sets, plan); got != want || plan.rolling {
			t.Fatalf("%s goes: sizes %s, want %s", sets[going].Name, got, want)
		}
		for _, u := range plan.update {
			*u.from = *u.to
			u.from.Status.Replicas, u.from.Status.AvailableReplicas = *u.from.Spec.Replicas, *u.from.Spec.Replicas
		}
		if plan := planDeployment(d, sets, podsStay); !plan.rolling || plan.create != nil {
			t.Errorf("%s goes: then sizes %s, rolling %t, creates %v", sets[going].Name, sizes(sets, plan), plan.rolling, plan.create)
		}
	}
}

func TestSaturatedNeedsNoOld(t *testing.T) {
	d := planned(3, 0, 1)
	sets := []*appsv1.ReplicaSet{plannedSet(0, 3, 3, 3), plannedSet(1, 2, 1, 1)} // the second was adopted
	plan := planDeployment(d, sets, podsStay)
	if got := sizes(sets, plan); got != "3 0" || plan.rolling {
		t.Errorf("sizes %s, want 3 0", got)
	}
	sets[0].Status.AvailableReplicas, sets[1].Annotations[maxAnnotation] = 2, "3"
	if got := sizes(sets, planDeployment(d, sets, podsStay)); got != "1 2" {
		t.Errorf("with one unavailable: sizes %s, want a share each, 1 2", got)
	}
	sets[0].Status.AvailableReplicas, sets[0].Annotations[desiredAnnotation] = 3, "2"
	if got := sizes(sets, planDeployment(d, sets, podsStay)); got != "1 2" {
		t.Errorf("before it is told of the size: sizes %s, want a share each, 1 2", got)
	}
}

func TestPausedKeepsShares(t *testing.T) {
	d := planned(10, 0, 1)
	d.Spec.Paused = true
	limit := int32(1)
	d.Spec.RevisionHistoryLimit = &limit
	sets := []*appsv1.ReplicaSet{plannedSet(0, 2, 5, 5), plannedSet(1, 3, 5, 5), plannedSet(2, 0, 5, 5), plannedSet(3, 0, 5, 5)}
	if got := sizes(sets, planDeployment(d, sets, podsStay)); got != "4 6 0 0" {
		t.Errorf("sizes %s, want 4 6 0 0", got)
	}
	for i, size := range []int32{4, 6} {
		sets[i].Spec.Replicas, sets[i].Status.Replicas = &size, size
		sets[i].Annotations[desiredAnnotation], sets[i].Annotations[maxAnnotation] = "10", "10"
	}
	// History is cleared as well. What is in use takes its place in the limit.
	plan := planDeployment(d, sets, podsStay)
	if len(plan.update) != 0 || !slices.Equal(plan.delete, []*appsv1.ReplicaSet{sets[3], sets[2]}) {
		t.Errorf("updates %d, deletes %v", len(plan.update), plan.delete)
	}
	d.Annotations[appsv1.DeprecatedRollbackTo] = "0"
	if plan := planDeployment(d, sets, podsStay); len(plan.delete) != 0 {
		t.Error("deletes what may be asked for: a rollback is waiting")
	}
}

func TestPlanRollback(t *testing.T) {
	for name, test := range map[string]struct {
		request   string
		noCurrent bool
		// hostname is the hostname in the template after the rollback.
		hostname, reason, message string
	}{
		"the last":             {request: "0", hostname: "v1", reason: "DeploymentRollback", message: `Rolled back deployment "web" to revision 8`},
		"by number":            {request: "7", hostname: "v2", reason: "DeploymentRollback", message: `Rolled back deployment "web" to revision 7`},
		"the same":             {request: "9", hostname: "v0", reason: "DeploymentRollbackTemplateUnchanged", message: `The rollback revision contains the same template as current deployment "web"`},
		"unknown":              {request: "3", hostname: "v0", reason: "DeploymentRollbackRevisionNotFound", message: "Unable to find the revision to rollback to."},
		"the last, not rolled": {request: "0", noCurrent: true, hostname: "v1", reason: "DeploymentRollback", message: `Rolled back deployment "web" to revision 8`},
		"nonsense":             {request: "x"},
	} {
		d := planned(3, 1, 0)
		d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: test.request, "cause": "edit", revisionAnnotation: "9"}
		sets := []*appsv1.ReplicaSet{plannedSet(2, 0, 3, 4), plannedSet(0, 3, 3, 4), plannedSet(1, 0, 3, 4)}
		for _, rs := range sets {
			rs.Annotations["cause"] = rs.Name
		}
		if test.noCurrent {
			sets = []*appsv1.ReplicaSet{sets[0], sets[2]}
		}
		r := planDeployment(d, sets, podsStay).rollback
		if test.hostname == "" {
			if r != nil {
				t.Errorf("%s: the rollback is %+v, want none", name, r)
			}
			continue
		}
		if r == nil || r.reason != test.reason || r.message != test.message || r.to.Spec.Template.Spec.Hostname != test.hostname {
			t.Fatalf("%s: the rollback is %+v, want reason %s, message %q and the template with hostname %s",
				name, r, test.reason, test.message, test.hostname)
		}
		_, left := r.to.Annotations[appsv1.DeprecatedRollbackTo]
		_, hash := r.to.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		if left || hash || r.to.Annotations[revisionAnnotation] != "9" {
			t.Errorf("%s: annotations %v, labels %v", name, r.to.Annotations, r.to.Spec.Template.Labels)
		}
		cause := map[bool]string{true: test.hostname, false: "edit"}[r.eventtype == corev1.EventTypeNormal]
		if r.to.Annotations["cause"] != cause {
			t.Errorf("%s: cause %q, want %q", name, r.to.Annotations["cause"], cause)
		}
	}
	d := planned(3, 1, 0)
	d.Annotations[appsv1.DeprecatedRollbackTo] = "0"
	if r := planDeployment(d, nil, podsStay).rollback; r == nil || r.message != "Unable to find last revision." {
		t.Errorf("without any ReplicaSet: %+v", r)
	}
}

func TestRevisionHistory(t *testing.T) {
	d := planned(3, 1, 0)
	rs := plannedSet(0, 0, 3, 4)
	rs.Annotations[revisionAnnotation] = "1"
	other := plannedSet(1, 3, 3, 4)
	for n := 2; n < 2000; n++ {
		other.Annotations[revisionAnnotation] = strconv.Itoa(n)
		r := newRollout(d, []*appsv1.ReplicaSet{rs, other})
		r.inherit(rs.Annotations, r.revision())
	}
	history := rs.Annotations[revisionHistoryAnnotation]
	if rs.Annotations[revisionAnnotation] != "2000" || len(history) > 2000 || len(history) < 1990 || !strings.HasSuffix(history, ",1998,1999") {
		t.Errorf("revision %s, history of %d bytes: %s", rs.Annotations[revisionAnnotation], len(history), history)
	}
}

func TestSetNameFits(t *testing.T) {
	d := planned(1, 1, 0)
	d.Name = strings.Repeat("x", 253)
	rs := newRollout(d, nil).newSet("1", 1)
	if len(rs.Name) != 253 || !strings.HasSuffix(rs.Name, "x-"+rs.Labels[appsv1.DefaultDeploymentUniqueLabelKey]) {
		t.Errorf("%d bytes: %s", len(rs.Name), rs.Name)
	}
}

package deployment

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionsOf lists conditions by
// type, status and reason, in their order.
func conditionsOf(s appsv1.DeploymentStatus) string {
	var list []string
	for _, c := range s.Conditions {
		list = append(list, string(c.Type)+"="+string(c.Status)+" "+c.Reason)
	}
	return strings.Join(list, ", ")
}

// TestProgressing has the Progressing condition follow from what it was and
// from what is seen.
func TestProgressing(t *testing.T) {
	now := time.Unix(100000, 0)
	const available = "Available=True MinimumReplicasAvailable"
	for name, test := range map[string]struct {
		// was is the condition before, as status and reason, some seconds ago.
		was     string
		ago     int
		change  func(d *appsv1.Deployment, sets []*appsv1.ReplicaSet)
		want    string
		message string
		kept    bool // with its times
	}{
		"complete":             {was: "True ReplicaSetUpdated", want: "True NewReplicaSetAvailable", message: `ReplicaSet "v0" has successfully progressed.`},
		"complete long ago":    {was: "True NewReplicaSetAvailable", ago: 9999, kept: true, want: "True NewReplicaSetAvailable"},
		"found":                {want: "True NewReplicaSetAvailable"}, // found, and complete at once
		"found, not all there": {change: lacking, want: "True FoundNewReplicaSet", message: `Found new replica set "v0"`},
		"pods die when it is over": {was: "True NewReplicaSetAvailable", ago: 9999, kept: true, want: "True NewReplicaSetAvailable",
			change: lacking},
		"moves": {was: "False ProgressDeadlineExceeded", want: "True ReplicaSetUpdated", message: `ReplicaSet "v0" is progressing.`,
			change: func(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) { lacking(d, sets); d.Status.ReadyReplicas = 0 }},
		"does not move":        {was: "True ReplicaSetUpdated", ago: 599, kept: true, want: "True ReplicaSetUpdated", change: lacking},
		"is late":              {was: "True ReplicaSetUpdated", ago: 601, want: "False ProgressDeadlineExceeded", message: `ReplicaSet "v0" has timed out progressing.`, change: lacking},
		"stays late":           {was: "False ProgressDeadlineExceeded", ago: 9999, kept: true, want: "False ProgressDeadlineExceeded", change: lacking},
		"pauses":               {was: "True NewReplicaSetAvailable", want: "Unknown DeploymentPaused", message: "Deployment is paused", change: pause},
		"pauses late":          {was: "False ProgressDeadlineExceeded", kept: true, want: "False ProgressDeadlineExceeded", change: pause},
		"resumes":              {was: "Unknown DeploymentPaused", ago: 9999, want: "Unknown DeploymentResumed", message: "Deployment is resumed", change: lacking},
		"resumes and is there": {was: "Unknown DeploymentPaused", want: "True NewReplicaSetAvailable"},
		"scaled": {was: "True ReplicaSetUpdated", ago: 9999, kept: true, want: "True ReplicaSetUpdated",
			change: func(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) { sets[0].Annotations[desiredAnnotation] = "2" }},
		"created": {was: "True NewReplicaSetAvailable", want: "True NewReplicaSetCreated",
			change: func(d *appsv1.Deployment, _ []*appsv1.ReplicaSet) { d.Spec.Template.Spec.Hostname = "next" }},
		"no deadline": {was: "True NewReplicaSetAvailable",
			change: func(d *appsv1.Deployment, _ []*appsv1.ReplicaSet) {
				*d.Spec.ProgressDeadlineSeconds = math.MaxInt32
			}},
	} {
		t.Run(name, func(t *testing.T) {
			d := planned(3, 1, 0)
			deadline := int32(600)
			d.Spec.ProgressDeadlineSeconds = &deadline
			d.Status = appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}
			then := metav1.NewTime(now.Add(-time.Duration(test.ago) * time.Second))
			if status, reason, ok := strings.Cut(test.was, " "); ok {
				d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing,
					Status: corev1.ConditionStatus(status), Reason: reason, LastUpdateTime: then, LastTransitionTime: then}}
			}
			sets := []*appsv1.ReplicaSet{plannedSet(0, 3, 3, 4)}
			if test.change != nil {
				test.change(d, sets)
			}
			s := deploymentStatus(d, sets, planDeployment(d, sets, podsStay), now)
			c := deploymentCondition(s.Conditions, appsv1.DeploymentProgressing)
			if test.want == "" {
				if conditionsOf(s) != available {
					t.Errorf("conditions %s", conditionsOf(s))
				}
				return
			}
			if c == nil || string(c.Status)+" "+c.Reason != test.want || test.message != "" && c.Message != test.message {
				t.Fatalf("conditions %s: %+v", conditionsOf(s), c)
			}
			if kept := c.LastUpdateTime.Equal(&then); test.ago > 0 && kept != test.kept {
				t.Errorf("times kept %t, want %t", kept, test.kept)
			}
		})
	}
}

// lacking takes the pods away.
func lacking(_ *appsv1.Deployment, sets []*appsv1.ReplicaSet) {
	s := &sets[0].Status
	s.ReadyReplicas, s.AvailableReplicas = 1, 1
}

func pause(d *appsv1.Deployment, _ []*appsv1.ReplicaSet) { d.Spec.Paused = true }

// TestDeploymentCounts checks that counts include all ReplicaSets, that missing pods are counted
// from the plan, and terminating pods only if all ReplicaSets report theirs.
func TestDeploymentCounts(t *testing.T) {
	d := planned(5, 1, 1)
	sets := []*appsv1.ReplicaSet{plannedSet(0, 3, 5, 6), plannedSet(1, 3, 5, 6), plannedSet(2, 0, 5, 6)}
	one, two := int32(1), int32(2)
	sets[0].Status.TerminatingReplicas, sets[1].Status.TerminatingReplicas = &one, &two
	sets[0].Status.AvailableReplicas = 1
	status := func() appsv1.DeploymentStatus {
		plan := planDeployment(d, sets, podsStay)
		return deploymentStatus(d, sets, plan, time.Now())
	}
	s := status()
	if s.Replicas != 6 || s.ReadyReplicas != 6 || s.AvailableReplicas != 4 || s.UpdatedReplicas != 3 || s.UnavailableReplicas != 2 {
		t.Errorf("status %+v", s)
	}
	if s.TerminatingReplicas == nil || *s.TerminatingReplicas != 3 {
		t.Errorf("%v terminating, want 3: nobody has looked at the third", s.TerminatingReplicas)
	}
	sets[2].Status.ObservedGeneration = 1
	if s := status(); s.TerminatingReplicas != nil {
		t.Errorf("%d terminating: the third does not tell", *s.TerminatingReplicas)
	}
	// More than wanted are none too few, and enough are all but those that may lack.
	sets[0].Status.AvailableReplicas, sets[1].Status.AvailableReplicas = 9, 9
	if s := status(); s.UnavailableReplicas != 0 {
		t.Errorf("%d unavailable", s.UnavailableReplicas)
	}
	for n, want := range map[int32]string{4: reasonAvailable, 3: reasonUnavailable} {
		sets[0].Status.AvailableReplicas, sets[1].Status.AvailableReplicas = n, 0
		if got := deploymentCondition(status().Conditions, appsv1.DeploymentAvailable).Reason; got != want {
			t.Errorf("%d available: %s", n, got)
		}
	}
	sets[1].Status.AvailableReplicas = 3
	// One that is about to be created lacks all its pods.
	d.Spec.Template.Spec.Hostname = "next"
	sets = sets[1:2]
	if s := status(); s.UnavailableReplicas != 3 || s.UpdatedReplicas != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestFailureIsPassedOn(t *testing.T) {
	d := planned(5, 1, 1)
	sets := []*appsv1.ReplicaSet{plannedSet(1, 3, 5, 6), plannedSet(0, 3, 5, 6)}
	then := metav1.NewTime(time.Unix(5, 0))
	fail := func(rs *appsv1.ReplicaSet) {
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			Reason: "FailedCreate", Message: "quota of " + rs.Name, LastTransitionTime: then}}
	}
	want := func(message string) {
		t.Helper()
		d.Status = deploymentStatus(d, sets, planDeployment(d, sets, podsStay), time.Now())
		got := optional.Value(deploymentCondition(d.Status.Conditions, appsv1.DeploymentReplicaFailure), appsv1.DeploymentCondition{})
		if got.Message != message || message != "" && (got.Reason != "FailedCreate" || !got.LastTransitionTime.Equal(&then)) {
			t.Errorf("%+v, want %q", got, message)
		}
	}
	want("")
	fail(sets[0])
	want("quota of v1")
	d.Status.Conditions = nil
	fail(sets[1])
	want("quota of v0")
	sets[0].Status.Conditions, sets[1].Status.Conditions = nil, nil
	want("")
}

// TestWhatIsProgress has one thing after the other move, against a deadline that
// is long over.
func TestWhatIsProgress(t *testing.T) {
	now := time.Unix(100000, 0)
	then := metav1.NewTime(now.Add(-time.Hour))
	for name, test := range map[string]struct {
		change func(d *appsv1.DeploymentStatus, now, old *appsv1.ReplicaSetStatus)
		want   string
	}{
		"nothing":            {func(_ *appsv1.DeploymentStatus, _, _ *appsv1.ReplicaSetStatus) {}, reasonTimedOut},
		"a new pod":          {func(d *appsv1.DeploymentStatus, _, _ *appsv1.ReplicaSetStatus) { d.Replicas--; d.UpdatedReplicas-- }, reasonUpdated},
		"an old pod less":    {func(d *appsv1.DeploymentStatus, _, _ *appsv1.ReplicaSetStatus) { d.Replicas++ }, reasonUpdated},
		"one more ready":     {func(d *appsv1.DeploymentStatus, _, _ *appsv1.ReplicaSetStatus) { d.ReadyReplicas-- }, reasonUpdated},
		"one more available": {func(d *appsv1.DeploymentStatus, _, _ *appsv1.ReplicaSetStatus) { d.AvailableReplicas-- }, reasonUpdated},
		"an old pod more":    {func(d *appsv1.DeploymentStatus, _, _ *appsv1.ReplicaSetStatus) { d.Replicas-- }, reasonTimedOut},
		"one less of all": {func(_ *appsv1.DeploymentStatus, now, _ *appsv1.ReplicaSetStatus) {
			now.ReadyReplicas--
			now.AvailableReplicas--
		}, reasonTimedOut},
	} {
		d := planned(3, 1, 0)
		d.Spec.ProgressDeadlineSeconds = new(int32(600))
		d.Status = appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 3,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
				Reason: reasonUpdated, LastUpdateTime: then, LastTransitionTime: then}}}
		sets := []*appsv1.ReplicaSet{plannedSet(0, 2, 3, 4), plannedSet(1, 2, 3, 4)}
		sets[0].Status.ReadyReplicas, sets[0].Status.AvailableReplicas = 1, 1
		test.change(&d.Status, &sets[0].Status, &sets[1].Status)
		s := deploymentStatus(d, sets, planDeployment(d, sets, podsStay), now)
		c := deploymentCondition(s.Conditions, appsv1.DeploymentProgressing)
		if c.Reason != test.want || c.LastUpdateTime.Equal(&then) {
			t.Errorf("%s: %+v, want %s", name, c, test.want)
		}
		// Since when it is so does not change as long as it is.
		if kept := c.LastTransitionTime.Equal(&then); kept != (test.want == reasonUpdated) {
			t.Errorf("%s: kept the time %t", name, kept)
		}
	}
}

// TestOverIsNotLate checks that a completed rollout does not exceed its deadline when
// other pods appear afterwards.
func TestOverIsNotLate(t *testing.T) {
	now := time.Unix(100000, 0)
	d := planned(3, 1, 0)
	d.Spec.ProgressDeadlineSeconds = new(int32(600))
	d.Status = appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 3, ReadyReplicas: 4, AvailableReplicas: 4,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reasonComplete}}}
	sets := []*appsv1.ReplicaSet{plannedSet(0, 3, 3, 4), plannedSet(1, 1, 3, 4)}
	s := deploymentStatus(d, sets, planDeployment(d, sets, podsStay), now)
	if c := deploymentCondition(s.Conditions, appsv1.DeploymentProgressing); c.Reason != reasonComplete {
		t.Errorf("the condition Progressing is %+v, want reason %s", c, reasonComplete)
	}
	// One old pod less is progress, and then it is over again.
	d.Status.Replicas++
	s = deploymentStatus(d, sets, planDeployment(d, sets, podsStay), now)
	if c := deploymentCondition(s.Conditions, appsv1.DeploymentProgressing); c.Reason != reasonUpdated {
		t.Errorf("with one old pod less the condition Progressing is %+v, want reason %s", c, reasonUpdated)
	}
}

// TestConditionTimes: the update is noted with a new reason or status, the
// transition with a new status only.
func TestConditionTimes(t *testing.T) {
	var s appsv1.DeploymentStatus
	at := func(seconds int64, status corev1.ConditionStatus, reason string, updated, changed int64) {
		t.Helper()
		setDeploymentCondition(&s, time.Unix(seconds, 0), appsv1.DeploymentAvailable, status, reason, reason)
		c := s.Conditions[0]
		if len(s.Conditions) != 1 || c.LastUpdateTime.Unix() != updated || c.LastTransitionTime.Unix() != changed || c.Message != reason {
			t.Errorf("after %s for %s at %d the conditions are %+v, want one, updated at %d, changed at %d, with that reason as message",
				status, reason, seconds, s.Conditions, updated, changed)
		}
	}
	at(1, corev1.ConditionTrue, "a", 1, 1)
	at(2, corev1.ConditionTrue, "a", 1, 1)
	at(3, corev1.ConditionTrue, "b", 3, 1)
	at(4, corev1.ConditionFalse, "b", 4, 4)
}

// TestProgressDeadline checks that a Deployment that may miss its deadline is reconciled a second
// after it, and no other.
func TestProgressDeadline(t *testing.T) {
	now := time.Unix(100000, 0)
	for name, test := range map[string]struct {
		reason string
		ago    time.Duration
		change func(d *appsv1.Deployment)
		want   time.Duration
	}{
		"on time":      {reason: reasonUpdated, ago: time.Minute, want: 9*time.Minute + time.Second},
		"created":      {reason: reasonCreated, want: 10*time.Minute + time.Second},
		"resumed":      {reason: reasonResumed, want: 10*time.Minute + time.Second},
		"over by now":  {reason: reasonUpdated, ago: time.Hour, want: time.Second},
		"complete":     {reason: reasonComplete},
		"late":         {reason: reasonTimedOut},
		"nothing said": {},
		"paused":       {reason: reasonPaused, change: func(d *appsv1.Deployment) { d.Spec.Paused = true }},
		"no deadline":  {reason: reasonUpdated, change: func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = nil }},
		"for ever":     {reason: reasonUpdated, change: func(d *appsv1.Deployment) { *d.Spec.ProgressDeadlineSeconds = math.MaxInt32 }},
	} {
		d := planned(3, 1, 0)
		d.Spec.ProgressDeadlineSeconds = new(int32(600))
		if test.change != nil {
			test.change(d)
		}
		var s appsv1.DeploymentStatus
		if test.reason != "" {
			setDeploymentCondition(&s, now.Add(-test.ago), appsv1.DeploymentProgressing, corev1.ConditionTrue, test.reason, "")
		}
		if got := progressDeadline(d, s, now); got != test.want {
			t.Errorf("%s: in %v, want %v", name, got, test.want)
		}
	}
}

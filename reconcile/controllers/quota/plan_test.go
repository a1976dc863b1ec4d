package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pods(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(n, resource.DecimalSI)}
}

func TestPlanQuota(t *testing.T) {
	for _, test := range []struct {
		name                              string
		charged, there, freed, coming, to int64
	}{
		{"all as it is", 3, 3, 0, 0, 3},
		{"one went", 3, 2, 1, 0, 2},
		{"one went, one comes", 3, 1, 1, 1, 2},
		{"one is charged and comes", 3, 2, 0, 1, 3},
		{"one was charged and never came", 3, 2, 0, 0, 2},
		{"two charged, one of which has come", 3, 2, 0, 2, 3},
		{"one is there that was not charged", 3, 4, 0, 0, 4},
		{"it is there, and another went", 3, 3, 1, 0, 3},
	} {
		quota := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: pods(10)}, Status: corev1.ResourceQuotaStatus{Used: pods(test.charged)}}
		status := planQuota(quota, quotaPage{there: pods(test.there), freed: pods(test.freed), coming: pods(test.coming)})
		if used := status.Used[corev1.ResourcePods]; used.Value() != test.to || len(status.Used) != 1 {
			t.Errorf("%s: %v, want %d", test.name, status.Used, test.to)
		}
		// What was not counted before is added; what no kind counts is left out.
		quota.Status.Used = nil
		quota.Spec.Hard["count/widgets.example.com"] = resource.MustParse("1")
		status = planQuota(quota, quotaPage{there: pods(test.there)})
		if used := status.Used[corev1.ResourcePods]; used.Value() != test.there || len(status.Used) != 1 || len(status.Hard) != 2 {
			t.Errorf("%s: a new quota has %v", test.name, status)
		}
		quota.Status.Used = corev1.ResourceList{"count/widgets.example.com": resource.MustParse("1"), "count/others": resource.MustParse("1")}
		status = planQuota(quota, quotaPage{there: pods(test.there)})
		if used := status.Used["count/widgets.example.com"]; used.Value() != 1 || len(status.Used) != 2 {
			t.Errorf("%s: with what somebody else counted it has %v", test.name, status)
		}
	}
}

// The books note every charge, also one that is seen only together with a write
// of the controller's own, and none twice.
func TestQuotaBooksNote(t *testing.T) {
	now, b := time.Unix(1, 0), newQuotaBooks(nil, nil)
	quota := func(revision string, used int64) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q", ResourceVersion: revision, UID: "1"},
			Spec: corev1.ResourceQuotaSpec{Hard: pods(10)}, Status: corev1.ResourceQuotaStatus{Hard: pods(10), Used: pods(used)}}
	}
	coming := func(revision string, used int64) int64 {
		t.Helper()
		page, err := b.read(quota(revision, used), now, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return page.coming.Pods().Value()
	}
	if b.note(quota("7", 3), now) {
		t.Error("noted without an account")
	}
	if got := coming("8", 3); got != 3 {
		t.Errorf("at first %d may come, want all 3", got)
	}
	now = now.Add(time.Minute)
	if got := coming("8", 3); got != 0 {
		t.Errorf("after a minute %d may come", got)
	}
	b.plan("default/q", pods(1)) // is written as revision 9; then 2 are charged
	if !b.note(quota("10", 3), now) || coming("10", 3) != 2 {
		t.Errorf("%d may come, want the 2 that were charged after the write", coming("10", 3))
	}
	if b.note(quota("9", 1), now) || b.note(quota("10", 3), now) || coming("10", 3) != 2 {
		t.Errorf("old news made it %d", coming("10", 3))
	}
	another := quota("11", 3) // of the same name, without a report that the first one was deleted
	another.UID = "2"
	if b.note(another, now) {
		t.Error("a charge of another quota was noted")
	}
	page, err := b.read(another, now, time.Minute)
	if got := page.coming.Pods().Value(); err != nil || got != 3 {
		t.Errorf("of another quota %d may come, want all 3: %v", got, err)
	}
	b.close("default/q")
	if got := coming("10", 3); got != 3 {
		t.Errorf("opened again, %d may come, want all 3", got)
	}
}

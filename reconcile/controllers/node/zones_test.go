package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestZoneRate stands on both sides of every bound.
func TestZoneRate(t *testing.T) {
	for name, test := range map[string]struct {
		size, unready int
		want          float64
	}{
		"two, however few there are":         {2, 2, 0.1},
		"two of three":                       {3, 2, 0.1},
		"three of four":                      {4, 3, 0},
		"three of six":                       {6, 3, 0.1},
		"just less than the share":           {20, 10, 0.1},
		"the share":                          {20, 11, 0},
		"the share of a zone as large as 50": {50, 28, 0},
		"and of a larger one":                {51, 29, 0.01},
		"nearly all of a large one":          {60, 59, 0.01},
		"all":                                {60, 60, 0.1},
		"none":                               {5, 0, 0.1},
	} {
		z := zones{limits: EvictionLimits{}.filled()}
		if got := z.rate(&zone{size: test.size, ready: test.size - test.unready}); got != test.want {
			t.Errorf("%s: rate %v, want %v", name, got, test.want)
		}
	}
}

// TestZoneNames: nodes are of one zone if region and zone are the same, by the old
// labels where there are such.
func TestZoneNames(t *testing.T) {
	const oldRegion, oldZone = corev1.LabelFailureDomainBetaRegion, corev1.LabelFailureDomainBetaZone
	node := func(pairs ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		for i := 0; i < len(pairs); i += 2 {
			n.Labels[pairs[i]] = pairs[i+1]
		}
		return n
	}
	for name, test := range map[string]struct {
		a, b *corev1.Node
		same bool
	}{
		"no labels":          {node(), node("x", "y"), true},
		"the same":           {node(corev1.LabelTopologyRegion, "r", corev1.LabelTopologyZone, "z"), node(corev1.LabelTopologyRegion, "r", corev1.LabelTopologyZone, "z"), true},
		"another zone":       {node(corev1.LabelTopologyZone, "z"), node(corev1.LabelTopologyZone, "y"), false},
		"another region":     {node(corev1.LabelTopologyRegion, "r", corev1.LabelTopologyZone, "z"), node(corev1.LabelTopologyRegion, "s", corev1.LabelTopologyZone, "z"), false},
		"a region, no zone":  {node(corev1.LabelTopologyRegion, "a"), node(corev1.LabelTopologyZone, "a"), false},
		"old and new labels": {node(oldRegion, "r", oldZone, "z"), node(corev1.LabelTopologyRegion, "r", corev1.LabelTopologyZone, "z"), true},
		"old labels first":   {node(oldZone, "z", corev1.LabelTopologyZone, "y"), node(corev1.LabelTopologyZone, "z"), true},
	} {
		if same := zoneOf(test.a) == zoneOf(test.b); same != test.same {
			t.Errorf("%s: %q and %q", name, zoneOf(test.a), zoneOf(test.b))
		}
	}
}

// TestZoneLessNode: where no node of its zone counts, one may be tainted at once, unless
// every node that does count is lost, or none is to be tainted ever.
func TestZoneLessNode(t *testing.T) {
	excluded := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{corev1.LabelTopologyZone: "x", excludeFromDisruption: ""}}}
	other := func(status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
	}
	for name, test := range map[string]struct {
		limits EvictionLimits
		status corev1.ConditionStatus
		want   bool
	}{
		"another is well": {EvictionLimits{}, corev1.ConditionTrue, true},
		"all are lost":    {EvictionLimits{}, corev1.ConditionUnknown, false},
		"never":           {EvictionLimits{Rate: -1}, corev1.ConditionTrue, false},
	} {
		z := zones{limits: test.limits.filled()}
		z.set("x", excluded)
		z.set("n", other(test.status))
		if allowed, wait := z.take(excluded, time.Unix(1000, 0)); allowed != test.want || wait != 0 {
			t.Errorf("%s: allowed %t, wait %s", name, allowed, wait)
		}
	}
}

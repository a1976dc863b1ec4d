package autoscale

import (
	"math"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/types"
)

// history holds what the controller has recommended for one autoscaler, and done. It is forgotten when the
// controller stops.
type history struct {
	of              types.UID
	recommendations []event
	ups, downs      []event
}

// event is a number of replicas at some time: recommended, added or removed.
type event struct {
	replicas int32
	time     time.Time
}

// verdict is a number of replicas with the reasons for it, in conditions.
type verdict struct {
	replicas                      int32
	stableReason, stableMessage   string // of AbleToScale
	limitedReason, limitedMessage string // of ScalingLimited
	limited                       bool
}

const (
	matches         = "recommended size matches current size"
	recentlyHigher  = "recent recommendations were higher than current one, applying the highest recent recommendation"
	recentlyLower   = "recent recommendations were lower than current one, applying the lowest recent recommendation"
	withinRange     = "the desired count is within the acceptable range"
	tooMany         = "the desired replica count is more than the maximum replica count"
	tooFew          = "the desired replica count is less than the minimum replica count"
	increasesFaster = "the desired replica count is increasing faster than the maximum scale rate"
	decreasesFaster = "the desired replica count is decreasing faster than the maximum scale rate"
)

// bounds are the limits of an autoscaler.
type bounds struct{ least, most int32 }

// begin records the number of replicas that the controller found.
func (h *history) begin(current int32, now time.Time) {
	if h.recommendations == nil {
		h.recommendations = []event{{current, now}}
	}
}

// normalize bounds desired replicas for an autoscaler with behavior b, which may be nil. window is how long a
// scale down waits if b does not say.
func (h *history) normalize(b *autoscalingv2.HorizontalPodAutoscalerBehavior, current, desired int32, in bounds, window time.Duration, now time.Time) verdict {
	v := verdict{stableReason: "ReadyForNewScale", stableMessage: matches}
	stable := desired
	var reason, message string
	if b == nil {
		stable = h.highest(desired, now, now.Add(-window))
		reason, message = "ScaleDownStabilized", recentlyHigher
	} else {
		down := window
		if s := b.ScaleDown.StabilizationWindowSeconds; s != nil {
			down = time.Duration(*s) * time.Second
		}
		var up time.Duration
		if s := b.ScaleUp.StabilizationWindowSeconds; s != nil {
			up = time.Duration(*s) * time.Second
		}
		stable = h.stabilize(current, desired, now, up, down)
		reason, message = "ScaleDownStabilized", recentlyHigher
		if desired >= current {
			reason, message = "ScaleUpStabilized", recentlyLower
		}
	}
	if stable != desired {
		v.stableReason, v.stableMessage = reason, message
	}
	if b == nil {
		v.replicas, v.limitedReason, v.limitedMessage = limit(current, stable, in)
	} else {
		v.replicas, v.limitedReason, v.limitedMessage = h.limit(b, current, stable, in, now)
	}
	v.limited = v.replicas != stable
	return v
}

// highest records a recommendation and returns the highest since cutoff.
func (h *history) highest(desired int32, now, cutoff time.Time) int32 {
	most := desired
	for _, e := range h.recommendations {
		if !e.time.Before(cutoff) {
			most = max(most, e.replicas)
		}
	}
	put(&h.recommendations, event{desired, now}, cutoff)
	return most
}

// stabilize records a recommendation. It returns the number between the lowest recommendation in the window for scaling up and the highest
// in the one for scaling down that is closest to current.
func (h *history) stabilize(current, desired int32, now time.Time, up, down time.Duration) int32 {
	upCutoff, downCutoff := now.Add(-up), now.Add(-down)
	lowest, highest := desired, desired
	for _, e := range h.recommendations {
		if e.time.After(upCutoff) {
			lowest = min(lowest, e.replicas)
		}
		if e.time.After(downCutoff) {
			highest = max(highest, e.replicas)
		}
	}
	oldest := upCutoff
	if downCutoff.Before(oldest) {
		oldest = downCutoff
	}
	put(&h.recommendations, event{desired, now}, oldest)
	return min(max(current, lowest), highest)
}

// put adds e to list, or replaces the last event before cutoff by it.
func put(list *[]event, e event, cutoff time.Time) {
	for i := range slices.Backward(*list) {
		if (*list)[i].time.Before(cutoff) {
			(*list)[i] = e
			return
		}
	}
	*list = append(*list, e)
}

// limit bounds replicas for an autoscaler without behavior, which at most doubles them, or makes four.
func limit(current, desired int32, in bounds) (replicas int32, reason, message string) {
	most, reason, message := in.most, "TooManyReplicas", tooMany
	if fast := int32(math.Max(2*float64(current), 4)); most > fast {
		most, reason, message = fast, "ScaleUpLimit", increasesFaster
	}
	switch {
	case desired < in.least:
		return in.least, "TooFewReplicas", tooFew
	case desired > most:
		return most, reason, message
	}
	return desired, "DesiredWithinRange", withinRange
}

// limit bounds replicas by the policies of b.
func (h *history) limit(b *autoscalingv2.HorizontalPodAutoscalerBehavior, current, desired int32, in bounds, now time.Time) (replicas int32, reason, message string) {
	switch {
	case desired > current:
		most, reason, message := in.most, "TooManyReplicas", tooMany
		if fast := max(h.upTo(b.ScaleUp, current, now), current); most > fast {
			most, reason, message = fast, "ScaleUpLimit", increasesFaster
		}
		if desired > most {
			return most, reason, message
		}
	case desired < current:
		least, reason, message := in.least, "TooFewReplicas", tooFew
		if fast := min(h.downTo(b.ScaleDown, current, now), current); least < fast {
			least, reason, message = fast, "ScaleDownLimit", decreasesFaster
		}
		if desired < least {
			return least, reason, message
		}
	}
	return desired, "DesiredWithinRange", withinRange
}

// atStart returns the replicas that there were before the changes of the last seconds.
func (h *history) atStart(current, seconds int32, now time.Time) int32 {
	cutoff := now.Add(-time.Duration(seconds) * time.Second)
	for _, e := range h.ups {
		if e.time.After(cutoff) {
			current -= e.replicas
		}
	}
	for _, e := range h.downs {
		if e.time.After(cutoff) {
			current += e.replicas
		}
	}
	return current
}

// upTo returns the most replicas that rules let there be now.
func (h *history) upTo(rules *autoscalingv2.HPAScalingRules, current int32, now time.Time) int32 {
	most, pick := int32(math.MinInt32), func(a, b int32) int32 { return max(a, b) }
	switch *rules.SelectPolicy {
	case autoscalingv2.DisabledPolicySelect:
		return current
	case autoscalingv2.MinChangePolicySelect:
		most, pick = math.MaxInt32, func(a, b int32) int32 { return min(a, b) }
	}
	for _, policy := range rules.Policies {
		replicas := h.atStart(current, policy.PeriodSeconds, now)
		switch policy.Type {
		case autoscalingv2.PodsScalingPolicy:
			replicas += policy.Value
		case autoscalingv2.PercentScalingPolicy: // rounded up, so that it grows at all
			replicas = int32(math.Ceil(float64(replicas) * (1 + float64(policy.Value)/100)))
		}
		most = pick(most, replicas)
	}
	return most
}

// downTo returns the fewest replicas that rules let there be now.
func (h *history) downTo(rules *autoscalingv2.HPAScalingRules, current int32, now time.Time) int32 {
	least, pick := int32(math.MaxInt32), func(a, b int32) int32 { return min(a, b) }
	switch *rules.SelectPolicy {
	case autoscalingv2.DisabledPolicySelect:
		return current
	case autoscalingv2.MinChangePolicySelect:
		least, pick = math.MinInt32, func(a, b int32) int32 { return max(a, b) }
	}
	for _, policy := range rules.Policies {
		replicas := h.atStart(current, policy.PeriodSeconds, now)
		switch policy.Type {
		case autoscalingv2.PodsScalingPolicy:
			replicas -= policy.Value
		case autoscalingv2.PercentScalingPolicy:
			replicas = int32(float64(replicas) * (1 - float64(policy.Value)/100))
		}
		least = pick(least, replicas)
	}
	return least
}

// scaled records a change under behavior b. It may replace one that is older than every period of b.
func (h *history) scaled(b *autoscalingv2.HorizontalPodAutoscalerBehavior, from, to int32, now time.Time) {
	if b == nil {
		return
	}
	rules, list, change := b.ScaleDown, &h.downs, from-to
	if to > from {
		rules, list, change = b.ScaleUp, &h.ups, to-from
	}
	var longest int32
	for _, policy := range rules.Policies {
		longest = max(longest, policy.PeriodSeconds)
	}
	put(list, event{change, now}, now.Add(-time.Duration(longest)*time.Second))
}

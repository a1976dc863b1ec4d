package objects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Keeper writes the status of one schema writesPerMinute times a minute at most, as
// kube-apiserver does, and then waits for pauseMin to pauseMax.
const (
	writesPerMinute = 6
	pauseMin        = 30 * time.Second
	pauseMax        = 75 * time.Second
)

// dangling returns the condition of a schema whose level exists or does not, and
// whether the schema has another one.
func dangling(schema *flowcontrolv1.FlowSchema, exists bool) (flowcontrolv1.FlowSchemaCondition, bool) {
	level := schema.Spec.PriorityLevelConfiguration.Name
	want := flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level),
	}
	if !exists {
		want.Status, want.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		want.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	}
	i := conditionIndex(schema)
	if i < 0 {
		return want, true
	}
	have := schema.Status.Conditions[i]
	have.LastTransitionTime = want.LastTransitionTime
	return want, have != want
}

func conditionIndex(schema *flowcontrolv1.FlowSchema) int {
	return slices.IndexFunc(schema.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) bool {
		return c.Type == flowcontrolv1.FlowSchemaConditionDangling
	})
}

// withCondition returns a copy of schema that has the condition.
func withCondition(schema *flowcontrolv1.FlowSchema, want flowcontrolv1.FlowSchemaCondition) *flowcontrolv1.FlowSchema {
	out := schema.DeepCopy()
	if i := conditionIndex(out); i >= 0 {
		out.Status.Conditions[i] = want
	} else {
		out.Status.Conditions = append(out.Status.Conditions, want)
	}
	return out
}

// pace bounds how often the status of each schema is written.
type pace struct {
	// writes are the times of the last minute by schema, until the end of a pause.
	writes map[string][]time.Time
	pauses map[string]time.Time
}

// take records a write of the schema now, or returns false if it may not be written.
func (p *pace) take(name string, now time.Time) bool {
	if now.Before(p.pauses[name]) {
		return false
	}
	delete(p.pauses, name)
	recent := slices.DeleteFunc(p.writes[name], func(t time.Time) bool { return now.Sub(t) > time.Minute })
	if len(recent) >= writesPerMinute {
		p.pauses[name] = now.Add(pauseMin + rand.N(pauseMax-pauseMin))
		return false
	}
	p.writes[name] = append(recent, now)
	return true
}

// forget drops what is known of schemas that have not been written for a minute.
func (p *pace) forget(now time.Time) {
	for name, times := range p.writes {
		if now.Sub(times[len(times)-1]) > time.Minute {
			delete(p.writes, name)
		}
	}
	for name, end := range p.pauses {
		if !now.Before(end) {
			delete(p.pauses, name)
		}
	}
}

// writeConditions writes the condition of every schema that has another one and was
// not written too often; the next pass looks at the others. known are the levels that
// exist. It reports whether a write conflicted: the cache is behind, and the writes
// that are left would conflict too.
func (k *Keeper) writeConditions(ctx context.Context, schemas []*flowcontrolv1.FlowSchema, known map[string]bool) (conflict bool, err error) {
	now := time.Now()
	k.pace.forget(now)
	var failed []error
	for _, s := range schemas {
		want, differs := dangling(s, known[s.Spec.PriorityLevelConfiguration.Name])
		if !differs || !k.pace.take(s.Name, now) {
			continue
		}
		want.LastTransitionTime = metav1.NewTime(now)
		switch _, err := k.config.SchemaClient.UpdateStatus(ctx, withCondition(s, want)); {
		case err == nil || apierrors.IsNotFound(err):
		case apierrors.IsConflict(err):
			return true, errors.Join(failed...)
		default:
			failed = append(failed, fmt.Errorf("flowschemas/%s: status: %w", s.Name, err))
		}
	}
	return false, errors.Join(failed...)
}

package events

import (
	"fmt"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/core"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Events returns the resource of the kind Event, which has the objects of the core group in another
// shape.
func Events() apiserver.Resource {
	older := core.Events()
	r := apiserver.For(kinds.EventsGroupEvents, apiserver.Resource{
		CreateOnUpdate: true,
		Strategy: define.Strategy[*eventsv1.Event]{
			Validate:       func(e *eventsv1.Event) field.ErrorList { return validateNewerEvent(olderEvent(e)) },
			ValidateUpdate: validateNewerEventUpdate,
		}.Erase(),
		TTL: older.TTL,
		StoredAs: &apiserver.StoredForm{
			Group: older.Group, Version: older.Version, Kind: older.Kind, Plural: older.Plural,
			New:  older.New,
			From: func(obj runtime.Object) (runtime.Object, error) { return newerEvent(obj.(*corev1.Event)), nil },
			To:   func(obj runtime.Object) (runtime.Object, error) { return olderEvent(obj.(*eventsv1.Event)), nil },
		},
		Fields: map[string]func(runtime.Object) string{},
	})
	r.Strategy.GarbageCollection = older.Strategy.GarbageCollection
	for _, c := range older.Columns {
		value := c.Value
		c.Value = func(obj runtime.Object) any { return value(olderEvent(obj.(*eventsv1.Event))) }
		r.Columns = append(r.Columns, c)
	}
	for path, name := range map[string]string{
		"reason":                    "reason",
		"regarding.kind":            "involvedObject.kind",
		"regarding.namespace":       "involvedObject.namespace",
		"regarding.name":            "involvedObject.name",
		"regarding.uid":             "involvedObject.uid",
		"regarding.apiVersion":      "involvedObject.apiVersion",
		"regarding.resourceVersion": "involvedObject.resourceVersion",
		"regarding.fieldPath":       "involvedObject.fieldPath",
		"reportingController":       "reportingComponent",
		"type":                      "type",
	} {
		value := older.Fields[name]
		r.Fields[path] = func(obj runtime.Object) string { return value(olderEvent(obj.(*eventsv1.Event))) }
	}
	return r
}

func newerEvent(e *corev1.Event) *eventsv1.Event {
	out := &eventsv1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance, Action: e.Action, Reason: e.Reason, Regarding: e.InvolvedObject,
		Related: e.Related, Note: e.Message, Type: e.Type, DeprecatedSource: e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
	}
	if e.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}

func olderEvent(e *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance, Action: e.Action, Reason: e.Reason, InvolvedObject: e.Regarding,
		Related: e.Related, Message: e.Note, Type: e.Type, Source: e.DeprecatedSource,
		FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
	}
	if e.Series != nil {
		out.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}

// validateNewerEvent names the fields of the core group in its messages, as Kubernetes does.
func validateNewerEvent(e *corev1.Event) field.ErrorList {
	var ps check.Problems
	check.Event(&ps, e, "reportingController")
	checkSeries(&ps, e.Series)
	ps.Present(!e.EventTime.IsZero(), field.NewPath("eventTime"), "")
	ps.Valid(e.Type == corev1.EventTypeNormal || e.Type == corev1.EventTypeWarning,
		field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type))
	for path, unset := range map[string]bool{
		"firstTimestamp": e.FirstTimestamp.IsZero(), "lastTimestamp": e.LastTimestamp.IsZero(),
		"count": e.Count == 0, "source": e.Source == corev1.EventSource{},
	} {
		ps.Valid(unset, field.NewPath(path), "", "needs to be unset")
	}
	return ps.List
}

func checkSeries(ps *check.Problems, s *corev1.EventSeries) {
	if s != nil {
		ps.Valid(s.Count >= 2, field.NewPath("series.count"), "", "should be at least 2")
		ps.Present(!s.LastObservedTime.IsZero(), field.NewPath("series.lastObservedTime"), "")
	}
}

// validateNewerEventUpdate allows changes of the series alone.
func validateNewerEventUpdate(newer, old *eventsv1.Event) field.ErrorList {
	var ps check.Problems
	e, was := olderEvent(newer), olderEvent(old)
	check.Event(&ps, e, "reportingController")
	if define.Differ(e.Series, was.Series) {
		checkSeries(&ps, e.Series)
	}
	for _, f := range []struct {
		path     string
		now, was any
	}{
		{"involvedObject", e.InvolvedObject, was.InvolvedObject}, {"reason", e.Reason, was.Reason},
		{"message", e.Message, was.Message}, {"source", e.Source, was.Source},
		{"firstTimestamp", e.FirstTimestamp, was.FirstTimestamp}, {"lastTimestamp", e.LastTimestamp, was.LastTimestamp},
		{"count", e.Count, was.Count}, {"reason", e.Reason, was.Reason}, {"type", e.Type, was.Type},
		{"action", e.Action, was.Action}, {"related", e.Related, was.Related},
		{"reportingController", e.ReportingController, was.ReportingController},
		{"reportingInstance", e.ReportingInstance, was.ReportingInstance},
	} {
		ps.Immutable(field.NewPath(f.path), f.now, f.was)
	}
	if now, before := e.EventTime.UnixMicro(), was.EventTime.UnixMicro(); now != before {
		ps.Immutable(field.NewPath("eventTime"), e.EventTime, was.EventTime)
	}
	return ps.List
}

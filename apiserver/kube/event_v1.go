package kube

import (
	"fmt"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// newerEvents are the core group's events in the shape of a group of their own.
func newerEvents() apiserver.Resource {
	older := events()
	r := apiserver.Resource{
		Group:      eventsv1.GroupName,
		Version:    "v1",
		Kind:       "Event",
		Plural:     "events",
		ShortNames: []string{"ev"},
		Namespaced: true,
		New:        func() runtime.Object { return &eventsv1.Event{} },
		NewList:    func() runtime.Object { return &eventsv1.EventList{} },
		Strategy: strategy[*eventsv1.Event]{
			validate:       func(e *eventsv1.Event) field.ErrorList { return validateNewerEvent(olderEvent(e)) },
			validateUpdate: validateNewerEventUpdate,
		}.erase(),
		StoredAs: &apiserver.Stored{
			Version: "v1", Kind: "Event", Plural: "events",
			New:  func() runtime.Object { return &corev1.Event{} },
			From: func(obj runtime.Object) runtime.Object { return newerEvent(obj.(*corev1.Event)) },
			Into: func(obj runtime.Object) runtime.Object { return olderEvent(obj.(*eventsv1.Event)) },
		},
		Fields: map[string]func(runtime.Object) string{},
	}
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

// validateNewerEvent speaks of the older fields, as upstream does.
func validateNewerEvent(e *corev1.Event) field.ErrorList {
	var ps problems
	checkEvent(&ps, e, "reportingController")
	checkSeries(&ps, e.Series)
	ps.present(!e.EventTime.IsZero(), field.NewPath("eventTime"), "")
	ps.valid(e.Type == corev1.EventTypeNormal || e.Type == corev1.EventTypeWarning,
		field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type))
	for path, unset := range map[string]bool{
		"firstTimestamp": e.FirstTimestamp.IsZero(), "lastTimestamp": e.LastTimestamp.IsZero(),
		"count": e.Count == 0, "source": e.Source == corev1.EventSource{},
	} {
		ps.valid(unset, field.NewPath(path), "", "needs to be unset")
	}
	return ps.list
}

func checkSeries(ps *problems, s *corev1.EventSeries) {
	if s != nil {
		ps.valid(s.Count >= 2, field.NewPath("series.count"), "", "should be at least 2")
		ps.present(!s.LastObservedTime.IsZero(), field.NewPath("series.lastObservedTime"), "")
	}
}

// validateNewerEventUpdate lets only the series go on.
func validateNewerEventUpdate(newer, old *eventsv1.Event) field.ErrorList {
	var ps problems
	e, was := olderEvent(newer), olderEvent(old)
	checkEvent(&ps, e, "reportingController")
	if differ(e.Series, was.Series) {
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
		ps.immutable(field.NewPath(f.path), f.now, f.was)
	}
	if now, before := e.EventTime.UnixMicro(), was.EventTime.UnixMicro(); now != before {
		ps.immutable(field.NewPath("eventTime"), e.EventTime, was.EventTime)
	}
	return ps.list
}

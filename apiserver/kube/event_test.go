package kube_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestEventsInTwoGroups writes events through either group and reads, changes
// and deletes them through the other.
func TestEventsInTwoGroups(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	const older, newer = "/api/v1/namespaces/team/events", "/apis/events.k8s.io/v1/namespaces/team/events"
	c.do("POST", older, `
metadata: {name: a}
involvedObject: {kind: Pod, namespace: team, name: web}
message: pulled
count: 3
type: Normal
lastTimestamp: "2026-01-01T00:00:00Z"`, 201)
	a := object(t, c.do("GET", newer+"/a", "", 200))
	if a.GetAPIVersion() != "events.k8s.io/v1" || value(a, "regarding", "name") != "web" || value(a, "note") != "pulled" ||
		value(a, "deprecatedLastTimestamp") != "2026-01-01T00:00:00Z" {
		t.Errorf("as the newer: %v", a)
	}
	b := object(t, c.do("POST", newer, `
metadata: {name: b}
eventTime: "2026-01-01T00:00:00.000000Z"
regarding: {kind: Pod, namespace: team, name: db}
reportingController: example.com/c
reportingInstance: i
action: Pull
reason: Pulled
type: Normal
note: said`, 201))
	old := object(t, c.do("GET", older+"/b", "", 200))
	if old.GetAPIVersion() != "v1" || value(old, "involvedObject", "name") != "db" || value(old, "message") != "said" ||
		old.GetUID() != b.GetUID() || old.GetResourceVersion() != b.GetResourceVersion() {
		t.Errorf("as the older: %v", old)
	}
	c.do("POST", newer, `{metadata: {name: a}, eventTime: "2026-01-01T00:00:00.000000Z", regarding: {namespace: team}, reportingController: c,
reportingInstance: i, action: A, reason: R, type: Normal}`, 409)
	for path, want := range map[string]int{
		older + "?fieldSelector=involvedObject.name%3Ddb": 1, newer + "?fieldSelector=regarding.name%3Dweb": 1, older: 2, newer: 2,
	} {
		list := object(t, c.do("GET", path, "", 200))
		if items, _, _ := unstructured.NestedSlice(list.Object, "items"); len(items) != want {
			t.Errorf("GET %s = %d items, want %d: %v", path, len(items), want, list)
		}
	}
	c.do("DELETE", newer+"/a", "", 200)
	c.do("GET", older+"/a", "", 404)
}

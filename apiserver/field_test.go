package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNodesWatchTheirPods has a node list and watch its own pods while others'
// come and go: a pod appears when it is bound, and everything else is left out.
func TestNodesWatchTheirPods(t *testing.T) {
	a := start(t)
	bind := func(name, node string) {
		a.create(podPath, pod(name, `,"labels":{"on":"`+node+`"}`))
		a.create(podPath+"/"+name+"/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"`+name+`"},"target":{"kind":"Node","name":"`+node+`"}}`)
	}
	names := func(query string) string {
		var names []string
		for _, p := range into[corev1.PodList](t, a.want(a.do("GET", query, ""), 200, "")).Items {
			names = append(names, p.Name)
		}
		return strings.Join(names, " ")
	}
	const mine = "?fieldSelector=spec.nodeName=n1"
	bind("a", "n1")
	bind("b", "n2")
	watched := a.watch("/api/v1/pods" + mine + "&watch=true")
	watched.want("ADDED/a")
	for i := range 20 {
		bind(fmt.Sprint("other", i), "n2")
	}
	bind("c", "n1")
	a.want(a.do("DELETE", podPath+"/a?gracePeriodSeconds=0", ""), 200, "")
	watched.want("ADDED/c", "DELETED/a")
	bind("d", "n1")
	for query, want := range map[string]string{
		"/api/v1/pods" + mine:                                         "c d",
		podPath + mine:                                                "c d",
		podPath + mine + "&limit=1":                                   "c",
		podPath + mine + "&labelSelector=on=n2":                       "",
		podPath + mine + "&fieldSelector=spec.nodeName=n2":            "c d", // the first counts
		podPath + mine + ",metadata.name=d":                           "d",
		podPath + mine + "&resourceVersion=0":                         "c d",
		podPath + "?fieldSelector=spec.nodeName=none":                 "",
		"/api/v1/namespaces/other/pods" + mine:                        "",
		podPath + "?fieldSelector=spec.nodeName=n1,spec.nodeName!=n1": "",
	} {
		if got := names(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

package kube_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// TestLayout: a server finds what kube-apiserver has stored, where and how it
// stores it: in apimachinery's protobuf, APIServices in JSON.
func TestLayout(t *testing.T) {
	store := memstore.New()
	proto := protobuf.NewSerializer(nil, nil)
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}
	}
	for key, obj := range map[storage.Key]runtime.Object{
		"/registry/pods/a/x":           &corev1.Pod{TypeMeta: kind("v1", "Pod"), ObjectMeta: meta("a", "x")},
		"/registry/services/specs/a/x": &corev1.Service{TypeMeta: kind("v1", "Service"), ObjectMeta: meta("a", "x")},
		//lint:ignore SA1019 it is served
		"/registry/services/endpoints/a/x": &corev1.Endpoints{TypeMeta: kind("v1", "Endpoints"), ObjectMeta: meta("a", "x")},
		"/registry/minions/x":              &corev1.Node{TypeMeta: kind("v1", "Node"), ObjectMeta: meta("", "x")},
		"/registry/controllers/a/x":        &corev1.ReplicationController{TypeMeta: kind("v1", "ReplicationController"), ObjectMeta: meta("a", "x")},
		"/registry/ingress/a/x":            &networkingv1.Ingress{TypeMeta: kind("networking.k8s.io/v1", "Ingress"), ObjectMeta: meta("a", "x")},
		"/registry/events/a/x":             &corev1.Event{TypeMeta: kind("v1", "Event"), ObjectMeta: meta("a", "x")},
		"/registry/flowschemas/x":          &flowcontrolv1.FlowSchema{TypeMeta: kind("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"), ObjectMeta: meta("", "x")},
		"/registry/prioritylevelconfigurations/x": &flowcontrolv1.PriorityLevelConfiguration{
			TypeMeta: kind("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"), ObjectMeta: meta("", "x")},
		"/registry/mutatingadmissionpolicies/x": &admissionv1beta1.MutatingAdmissionPolicy{
			TypeMeta: kind("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy"), ObjectMeta: meta("", "x")},
		"/registry/mutatingadmissionpolicybindings/x": &admissionv1beta1.MutatingAdmissionPolicyBinding{
			TypeMeta: kind("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicyBinding"), ObjectMeta: meta("", "x")},
		"/registry/clusterroles/x": &rbacv1.ClusterRole{TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRole"), ObjectMeta: meta("", "x")},
	} {
		var value bytes.Buffer
		if err := proto.Encode(obj, &value); err != nil {
			t.Fatal(err)
		}
		put(t, store, key, value.String())
	}
	put(t, store, "/registry/apiregistration.k8s.io/apiservices/x",
		`{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"x","uid":"u"},"spec":{}}`)
	put(t, store, "/registry/ranges/serviceips", "not for us")

	s := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Store, c.Layout = store, kube.Layout }))
	client := s.As("admin", user.Masters)
	for _, path := range []string{
		"/api/v1/namespaces/a/pods/x", "/api/v1/namespaces/a/services/x", "/api/v1/namespaces/a/endpoints/x", "/api/v1/nodes/x",
		"/api/v1/namespaces/a/replicationcontrollers/x", "/apis/networking.k8s.io/v1/namespaces/a/ingresses/x",
		"/api/v1/namespaces/a/events/x", "/apis/events.k8s.io/v1/namespaces/a/events/x",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/x", "/apis/apiregistration.k8s.io/v1/apiservices/x",
		"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/x", "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/x",
		"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/x", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/x",
	} {
		response, err := client.Get("http://memory" + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("GET %s = %d, want 200", path, response.StatusCode)
		}
	}
}

func kind(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

func put(t *testing.T, store storage.Store, key storage.Key, value string) {
	t.Helper()
	if _, err := store.Commit(t.Context(), storage.Change{Key: key, Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

// TestLayoutOfOthers: what is not built in comes under its group.
func TestLayoutOfOthers(t *testing.T) {
	for want, resource := range map[string]schema.GroupResource{
		"example.com/widgets": {Group: "example.com", Resource: "widgets"},
		"deployments":         {Group: "apps", Resource: "deployments"},
		"extensions/services": {Group: "extensions", Resource: "services"},
	} {
		if got := kube.Layout(resource); got != want || strings.HasPrefix(got, "/") {
			t.Errorf("%s is under %q, want %q", resource, got, want)
		}
	}
}

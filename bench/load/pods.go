package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/planekit/planekit/bench/wire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// These are media types of the protocol.
const (
	protobuf = "application/vnd.kubernetes.protobuf"
	asJSON   = "application/json"
	asTable  = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// pod returns a pod like that of a small service. It mounts no token, so that both sides store the
// same.
func pod(name string) *corev1.Pod {
	no := false
	quantities := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"app": "web", "tier": "front", "pod-template-hash": "5d4f8c7b9"},
			Annotations: map[string]string{"example.com/owner": "team-one"},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/team-one/web:1.27.3",
				Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Env:       []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "BACKEND", Value: "http://backend:8080"}},
				Resources: corev1.ResourceRequirements{Requests: quantities("100m", "128Mi"), Limits: quantities("500m", "256Mi")},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)},
				}},
			}},
		},
	}
}

// encode encodes an object as protobuf, in the envelope of the protocol.
func encode(object interface{ Marshal() ([]byte, error) }, kind string) ([]byte, error) {
	raw, err := object.Marshal()
	if err != nil {
		return nil, err
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
	body, err := unknown.Marshal()
	return append([]byte("k8s\x00"), body...), err
}

// A creator makes requests that create pods, which differ only in their names.
type creator struct {
	path   string
	prefix string
	body   []byte
	at     int // of the number in the body
}

// numberWidth is the number of digits in a name.
const numberWidth = 8

func newCreator(namespace, prefix string) (*creator, error) {
	name := fmt.Sprintf("%s%0*d", prefix, numberWidth, 0)
	body, err := encode(pod(name), "Pod")
	if err != nil {
		return nil, err
	}
	at := bytes.Index(body, []byte(name))
	if at < 0 {
		return nil, fmt.Errorf("no name %s in the body", name)
	}
	return &creator{path: "/api/v1/namespaces/" + namespace + "/pods", prefix: prefix, body: body, at: at + len(prefix)}, nil
}

// request returns a request that creates pod number n.
func (c *creator) request(n int) wire.Request {
	body := bytes.Clone(c.body)
	copy(body[c.at:], fmt.Appendf(nil, "%0*d", numberWidth, n))
	return wire.Request{Method: "POST", Path: c.path, Accept: protobuf, ContentType: protobuf, Body: body}
}

// name returns the name of pod number n.
func (c *creator) name(n int) string { return fmt.Sprintf("%s%0*d", c.prefix, numberWidth, n) }

// fillers is the number of clients that fill a server.
const fillers = 64

// fill creates the pods from number from up to number to, as fast as possible.
func (s *side) fill(ctx context.Context, c *creator, from, to int) (figures, error) {
	if from >= to {
		return figures{}, nil
	}
	return s.load(ctx, min(fillers, to-from), amount{requests: to - from}, func(_, n int) wire.Request { return c.request(from + n) })
}

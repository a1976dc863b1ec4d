package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// worker does one operation after another.
type worker struct {
	*soak
	random  *rand.Rand
	watches sync.WaitGroup
}

// operation is an operation in a namespace. It returns nil if there was nothing to do.
type operation struct {
	name   string
	weight int // out of 1000
	do     func(*worker, context.Context, *space) error
}

var operations = []operation{
	{"create", 220, (*worker).create},
	{"update", 160, (*worker).update},
	{"patch", 130, (*worker).patch},
	{"apply", 80, (*worker).apply},
	{"delete", 170, (*worker).remove},
	{"get", 90, (*worker).get},
	{"list", 30, (*worker).list},
	{"event", 60, (*worker).event},
	{"service", 10, (*worker).service},
	{"deploy", 8, (*worker).deploy},
	{"roll out", 10, (*worker).rollOut},
	{"scale", 8, (*worker).scale},
	{"delete deployment", 3, (*worker).undeploy},
	{"watch", 19, (*worker).watch},
	{"namespace", 2, (*worker).namespace},
}

// These limit the number of objects at a time.
const (
	maxSpaces      = 10
	maxRecords     = 200 // of a namespace
	maxDeployments = 3   // of a namespace
	maxServices    = 3   // of a namespace
	maxReplicas    = 3
)

// operate does a random operation.
func (w *worker) operate(ctx context.Context) {
	space := w.world.pick(w.random)
	if space == nil {
		w.done(ctx, "namespace", nil, w.child.life(), w.namespace(ctx, nil))
		return
	}
	life, n := w.child.life(), w.random.IntN(1000)
	for _, op := range operations {
		if n -= op.weight; n < 0 {
			w.done(ctx, op.name, space, life, op.do(w, ctx, space))
			return
		}
	}
}

// done counts an operation. A failure while the cluster was down or the namespace was being deleted
// is not a failure of the server.
func (w *worker) done(ctx context.Context, name string, in *space, life int, err error) {
	excused := ctx.Err() != nil || w.down.Load() || w.child.life() != life || in != nil && in.dying.Load()
	w.tally.add(name, err, excused)
}

// answered reports whether the server has accepted or refused the request.
func answered(err error) bool {
	status, ok := err.(apierrors.APIStatus)
	return err == nil || ok && status.Status().Code < http.StatusInternalServerError
}

// settle records the result of writing value.
func settle(r *record, value string, object *corev1.ConfigMap, err error) error {
	switch {
	case err == nil:
		r.wrote(value, object.ResourceVersion)
	case !answered(err):
		r.unsure(value)
	}
	return err
}

// value returns a value that no record has had, and data that contains it.
func (w *worker) value() (string, map[string]string) {
	size := 50 + w.random.IntN(2000)
	if w.random.IntN(500) == 0 {
		size = 200_000
	}
	value := fmt.Sprintf("%x", w.random.Uint64())
	return value, map[string]string{"value": value, "filling": strings.Repeat(value[:1], size)}
}

func (w *worker) create(ctx context.Context, s *space) error {
	if s.size() >= maxRecords {
		return w.remove(ctx, s)
	}
	r := s.record(w.random, true)
	defer r.mu.Unlock()
	value, data := w.value()
	object, err := typed.ConfigMaps(w.child.api).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: r.name}, Data: data})
	return settle(r, value, object, err)
}

// onRecord calls do with an existing record, which no other worker uses meanwhile.
func (w *worker) onRecord(s *space, do func(*record) error) error {
	r := s.record(w.random, false)
	if r == nil {
		return nil
	}
	defer r.mu.Unlock()
	return do(r)
}

func (w *worker) update(ctx context.Context, s *space) error {
	return w.onRecord(s, func(r *record) error {
		value, data := w.value()
		object, err := typed.ConfigMaps(w.child.api).Update(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: r.name, ResourceVersion: r.revision}, Data: data,
		})
		return settle(r, value, object, err)
	})
}

func (w *worker) patch(ctx context.Context, s *space) error {
	return w.onRecord(s, func(r *record) error {
		value, data := w.value()
		kind, body := types.MergePatchType, any(map[string]any{"data": data})
		switch w.random.IntN(3) {
		case 0:
			kind = types.StrategicMergePatchType
		case 1:
			kind, body = types.JSONPatchType, []map[string]string{{"op": "replace", "path": "/data/value", "value": value}}
		}
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		object, err := typed.ConfigMaps(w.child.api).Patch(ctx, s.name, r.name, kind, encoded)
		return settle(r, value, object, err)
	})
}

func (w *worker) apply(ctx context.Context, s *space) error {
	return w.onRecord(s, func(r *record) error {
		value, data := w.value()
		encoded, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": r.name}, "data": data})
		if err != nil {
			return err
		}
		response, err := w.child.api.Do(ctx, client.Request{
			Method: http.MethodPatch, Path: "/api/v1/namespaces/" + s.name + "/configmaps/" + r.name, ContentType: string(types.ApplyPatchType),
			Query: url.Values{"fieldManager": {"soak"}, "force": {"true"}}, Body: encoded,
		})
		object := &corev1.ConfigMap{}
		if err == nil {
			err = json.Unmarshal(response.Body, object)
		}
		return settle(r, value, object, err)
	})
}

func (w *worker) remove(ctx context.Context, s *space) error {
	return w.onRecord(s, func(r *record) error {
		err := typed.ConfigMaps(w.child.api).Delete(ctx, s.name, r.name, metav1.DeleteOptions{})
		switch {
		case err == nil:
			s.drop(r)
			r.acknowledged = absent
		case !answered(err):
			r.unsure(absent)
		}
		return err
	})
}

func (w *worker) get(ctx context.Context, s *space) error {
	return w.onRecord(s, func(r *record) error {
		object, err := typed.ConfigMaps(w.child.api).Get(ctx, s.name, r.name)
		if err == nil && object.Data["value"] != r.acknowledged {
			return fmt.Errorf("get %s/%s: value %q, acknowledged was %q", s.name, r.name, object.Data["value"], r.acknowledged)
		}
		return err
	})
}

// list reads a resource in one of the forms that clients use.
func (w *worker) list(ctx context.Context, s *space) error {
	forms := []string{client.JSON, client.Protobuf, "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
	path := followed[w.random.IntN(len(followed))]
	if w.random.IntN(2) == 0 {
		path = "/api/v1/namespaces/" + s.name + "/configmaps"
	}
	query := url.Values{}
	if w.random.IntN(2) == 0 {
		query.Set("limit", "50")
	}
	if w.random.IntN(3) == 0 {
		query.Set("resourceVersion", "0")
	}
	_, err := w.child.api.Do(ctx, client.Request{Path: path, Query: query, Accept: forms[w.random.IntN(len(forms))]})
	return err
}

func (w *worker) event(ctx context.Context, s *space) error {
	now := metav1.Now()
	_, err := typed.Events(w.child.api).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.name, Name: fmt.Sprintf("event.%x", w.random.Uint64())},
		InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: s.name, Name: "map", APIVersion: "v1"},
		Reason:         "Soaked", Message: strings.Repeat("m", w.random.IntN(500)), Type: corev1.EventTypeNormal,
		Count: 1, FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: "soak"},
	})
	return err
}

func (w *worker) service(ctx context.Context, s *space) error {
	services := typed.Services(w.child.api)
	if name := s.put(&s.services, "service", maxServices); name != "" {
		_, err := services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"soak": "yes"}, Ports: []corev1.ServicePort{{Port: 80}}},
		})
		return err
	}
	return services.Delete(ctx, s.name, s.take(&s.services, w.random, true), metav1.DeleteOptions{})
}

func (w *worker) deploy(ctx context.Context, s *space) error {
	name := s.put(&s.deployments, "deployment", maxDeployments)
	if name == "" {
		return w.rollOut(ctx, s)
	}
	replicas, labels := int32(w.random.IntN(maxReplicas+1)), map[string]string{"soak": "yes", "name": name}
	_, err := typed.Deployments(w.child.api).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}, TerminationGracePeriodSeconds: new(int64(1))},
			},
		},
	})
	return err
}

// onDeployment patches a Deployment, if there is one.
func (w *worker) onDeployment(ctx context.Context, s *space, patch string) error {
	name := s.take(&s.deployments, w.random, false)
	if name == "" {
		return nil
	}
	_, err := typed.Deployments(w.child.api).Patch(ctx, s.name, name, types.StrategicMergePatchType, []byte(patch))
	return ignoreNotFound(err)
}

func (w *worker) rollOut(ctx context.Context, s *space) error {
	return w.onDeployment(ctx, s, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"soak/roll":"%x"}}}}}`, w.random.Uint64()))
}

func (w *worker) scale(ctx context.Context, s *space) error {
	return w.onDeployment(ctx, s, fmt.Sprintf(`{"spec":{"replicas":%d}}`, w.random.IntN(maxReplicas+1)))
}

func (w *worker) undeploy(ctx context.Context, s *space) error {
	name := s.take(&s.deployments, w.random, true)
	if name == "" {
		return nil
	}
	return ignoreNotFound(typed.Deployments(w.child.api).Delete(ctx, s.name, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
}

// ignoreNotFound ignores that another worker has deleted a Deployment, or has not created it yet.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// namespace creates a namespace, or deletes the oldest of many.
func (w *worker) namespace(ctx context.Context, _ *space) error {
	namespaces := typed.Namespaces(w.child.api)
	if old := w.world.oldest(maxSpaces - 1); old != nil {
		return namespaces.Delete(ctx, "", old.name, metav1.DeleteOptions{})
	}
	name := w.world.name()
	_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err == nil {
		w.world.add(&space{name: name})
	}
	return err
}

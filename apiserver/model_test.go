package apiserver_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// modelled is an object of the model.
type modelled struct{ value, revision, uid string }

// model is a plain map of what the server should hold, and the random
// operations that are done to both.
type model struct {
	*api
	random  *rand.Rand
	objects map[string]modelled
}

// TestModel does random operations to a server and to a map. They must agree
// on every answer, on the final list, and a watch from the beginning must lead to
// the same state.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := &model{start(t), rand.New(rand.NewPCG(seed, 0)), map[string]modelled{}}
	follow := m.watch(configPath + "?watch=true")
	changes := 0
	for range 600 {
		before := maps.Clone(m.objects)
		m.step()
		if !maps.Equal(before, m.objects) {
			changes++
		}
	}
	listed := map[string]modelled{}
	for _, item := range into[corev1.ConfigMapList](t, m.do("GET", configPath, "")).Items {
		listed[item.Name] = known(&item)
	}
	if !maps.Equal(listed, m.objects) {
		t.Errorf("listed %v, want %v", listed, m.objects)
	}
	watched := map[string]modelled{}
	for range changes {
		e := follow.next()
		obj := into[corev1.ConfigMap](t, answer{body: string(e.Object)})
		if watched[obj.Name] = known(obj); e.Type == "DELETED" {
			delete(watched, obj.Name)
		}
	}
	if !maps.Equal(watched, m.objects) {
		t.Errorf("watched %v, want %v", watched, m.objects)
	}
}

func known(obj *corev1.ConfigMap) modelled {
	return modelled{obj.Data["v"], obj.ResourceVersion, string(obj.UID)}
}

// step does one operation on one of a few names, so that they meet.
func (m *model) step() {
	m.t.Helper()
	name, value := fmt.Sprint("n", m.random.IntN(6)), fmt.Sprint(m.random.IntN(4))
	have, exists := m.objects[name]
	data := fmt.Sprintf(`,"data":{"v":%q}`, value)
	absent := func(code int) int {
		if exists {
			return code
		}
		return 404
	}
	switch m.random.IntN(6) {
	case 0, 1:
		code := 201
		if exists {
			code = 409
		}
		m.settle(name, code, 201, m.do("POST", configPath, configMap(name, data)))
	case 2:
		m.settle(name, absent(200), 200, m.do("PUT", configPath+"/"+name, configMap(name, data)))
	case 3:
		m.settle(name, absent(200), 200, m.do("PATCH", configPath+"/"+name, `{"data":{"v":"`+value+`"}}`, mergePatch))
	case 4:
		stale := fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"1"}%s}`, name, data)
		m.want(m.do("PUT", configPath+"/"+name, stale), absent(409), "")
		m.want(m.do("DELETE", configPath+"/"+name, `{"preconditions":{"uid":"other"}}`), absent(409), "")
	case 5:
		m.want(m.do("DELETE", configPath+"/"+name, `{"preconditions":{"uid":"`+have.uid+`"}}`), absent(200), "")
		delete(m.objects, name)
	}
}

// settle checks an answer and takes an object that was written into the model.
func (m *model) settle(name string, want, written int, got answer) {
	m.t.Helper()
	m.want(got, want, "")
	if got.code != written {
		return
	}
	now, old := known(into[corev1.ConfigMap](m.t, got)), m.objects[name]
	if old.uid != "" && (now.uid != old.uid || (now.value == old.value) != (now.revision == old.revision)) {
		m.t.Fatalf("%s went from %v to %v", name, old, now)
	}
	m.objects[name] = now
}

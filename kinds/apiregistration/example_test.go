package apiregistration_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/planekit/planekit/kinds/apiregistration"
)

const sample = `{"metadata":{"name":"v1.example.com","labels":{"a":"b"}},"spec":{"service":{"namespace":"n","name":"s","port":443},` +
	`"group":"example.com","version":"v1","caBundle":"YQ==","groupPriorityMinimum":10,"versionPriority":5},` +
	`"status":{"conditions":[{"type":"Available","status":"True","lastTransitionTime":null}]}}`

func Example() {
	var s apiregistration.APIService
	err := json.Unmarshal([]byte(sample), &s)
	fmt.Println(s.Spec.Group, s.Spec.Service.Name, *s.Spec.Service.Port, s.Status.Conditions[0].Status, err)
	// Output: example.com s 443 True <nil>
}

// TestDeepCopy changes every part of a copy.
func TestDeepCopy(t *testing.T) {
	var s, same apiregistration.APIService
	for _, to := range []*apiregistration.APIService{&s, &same} {
		if err := json.Unmarshal([]byte(sample), to); err != nil {
			t.Fatal(err)
		}
	}
	list := &apiregistration.APIServiceList{Items: []apiregistration.APIService{s}}
	copied := list.DeepCopyObject().(*apiregistration.APIServiceList)
	if !reflect.DeepEqual(list, copied) {
		t.Errorf("the copy is %v", copied)
	}
	c := &copied.Items[0]
	c.Labels["a"], c.Spec.Service.Name, *c.Spec.Service.Port, c.Spec.CABundle[0], c.Status.Conditions[0].Status = "c", "t", 1, 'b', "False"
	if !reflect.DeepEqual(s, same) {
		t.Errorf("it became %v", s)
	}
}

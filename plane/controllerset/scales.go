package controllerset

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/planekit/planekit/client"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// scales reads the scale subresource of any kind that the server has.
type scales struct{ api *client.Client }

func (s scales) ReadScale(ctx context.Context, namespace string, owner *metav1.OwnerReference) (*autoscalingv1.Scale, error) {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, err
	}
	path := "/apis/" + version.String()
	if version.Group == "" {
		path = "/api/" + version.Version
	}
	var served metav1.APIResourceList
	if err := s.get(ctx, path, &served); err != nil {
		return nil, fmt.Errorf("discover %s: %s", path, err) // that the group is not there is not that the object is not
	}
	of := func(match func(metav1.APIResource) bool) int { return slices.IndexFunc(served.APIResources, match) }
	at := of(func(r metav1.APIResource) bool { return r.Kind == owner.Kind && !strings.Contains(r.Name, "/") })
	if at < 0 {
		return nil, fmt.Errorf("no matches for kind %q in version %q", owner.Kind, owner.APIVersion)
	}
	plural := served.APIResources[at].Name
	if of(func(r metav1.APIResource) bool { return r.Name == plural+"/scale" && r.Kind == "Scale" }) < 0 {
		return nil, fmt.Errorf("%s does not implement the scale subresource", schema.GroupResource{Group: version.Group, Resource: plural})
	}
	scale := &autoscalingv1.Scale{}
	return scale, s.get(ctx, path+"/namespaces/"+url.PathEscape(namespace)+"/"+plural+"/"+url.PathEscape(owner.Name)+"/scale", scale)
}

func (s scales) get(ctx context.Context, path string, into any) error {
	response, err := s.api.Do(ctx, client.Request{Path: path})
	if err != nil {
		return err
	}
	return json.Unmarshal(response.Body, into)
}

// Package apiregistration has the types of apiregistration.k8s.io/v1: an
// APIService says which server serves a version of a group.
//
//	var s apiregistration.APIService
//	err := json.Unmarshal(data, &s)
//
// The model: JSON and protobuf are those of Kubernetes' aggregation layer, whose own types
// come with all of its code. How it fails: it has nothing that could.
//
// What it leaves out: everything that acts on an APIService.
package apiregistration

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// GroupName is the group of the types.
const GroupName = "apiregistration.k8s.io"

// Available is the type of the condition that says whether the server answers.
const Available = "Available"

// APIService says who serves one version of one group. Its name is
// "version.group".
type APIService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   APIServiceSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	Status APIServiceStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// APIServiceSpec says where the server is and how much its version matters.
type APIServiceSpec struct {
	// Service leads to the server; nil means this server itself.
	Service *ServiceReference `json:"service,omitempty" protobuf:"bytes,1,opt,name=service"`
	Group   string            `json:"group,omitempty" protobuf:"bytes,2,opt,name=group"`
	Version string            `json:"version,omitempty" protobuf:"bytes,3,opt,name=version"`
	// InsecureSkipTLSVerify trusts any certificate.
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty" protobuf:"varint,4,opt,name=insecureSkipTLSVerify"`
	// CABundle is PEM; empty means the roots of the system.
	CABundle []byte `json:"caBundle,omitempty" protobuf:"bytes,5,opt,name=caBundle"`
	// GroupPriorityMinimum puts groups in order, the highest first.
	GroupPriorityMinimum int32 `json:"groupPriorityMinimum" protobuf:"varint,7,opt,name=groupPriorityMinimum"`
	// VersionPriority puts the versions of a group in order, the highest first.
	VersionPriority int32 `json:"versionPriority" protobuf:"varint,8,opt,name=versionPriority"`
}

// ServiceReference names a service. Port nil means 443.
type ServiceReference struct {
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,1,opt,name=namespace"`
	Name      string `json:"name,omitempty" protobuf:"bytes,2,opt,name=name"`
	Port      *int32 `json:"port,omitempty" protobuf:"varint,3,opt,name=port"`
}

// APIServiceStatus says what is known of the server.
type APIServiceStatus struct {
	Conditions []APIServiceCondition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type" protobuf:"bytes,1,rep,name=conditions"`
}

// APIServiceCondition is one thing that is known.
type APIServiceCondition struct {
	Type               string                 `json:"type" protobuf:"bytes,1,opt,name=type,casttype=APIServiceConditionType"`
	Status             metav1.ConditionStatus `json:"status" protobuf:"bytes,2,opt,name=status,casttype=ConditionStatus"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty" protobuf:"bytes,3,opt,name=lastTransitionTime"`
	Reason             string                 `json:"reason,omitempty" protobuf:"bytes,4,opt,name=reason"`
	Message            string                 `json:"message,omitempty" protobuf:"bytes,5,opt,name=message"`
}

// APIServiceList is a list of them.
type APIServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []APIService `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// DeepCopy returns a copy that shares nothing.
func (s *APIService) DeepCopy() *APIService {
	if s == nil {
		return nil
	}
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if ref := s.Spec.Service; ref != nil {
		service := *ref
		if ref.Port != nil {
			service.Port = new(*ref.Port)
		}
		out.Spec.Service = &service
	}
	out.Spec.CABundle = slices.Clone(s.Spec.CABundle)
	out.Status.Conditions = slices.Clone(s.Status.Conditions)
	return &out
}

// DeepCopyObject makes an APIService a runtime.Object.
func (s *APIService) DeepCopyObject() runtime.Object { return s.DeepCopy() }

// DeepCopyObject makes a list of them a runtime.Object.
func (l *APIServiceList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = slices.Clone(l.Items)
	for i := range out.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return &out
}

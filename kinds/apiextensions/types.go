// Package apiextensions has the types of apiextensions.k8s.io/v1: a CustomResourceDefinition describes a
// resource that an API server serves.
//
//	var d apiextensions.CustomResourceDefinition
//	err := yaml.Unmarshal(data, &d)
//
// The model: JSON and protobuf are those of Kubernetes, whose own types come with an API server. How it fails:
// UnmarshalJSON reports JSON of another form, and Unmarshal a malformed message.
//
// What it leaves out: defaults, validation, and everything that acts on a definition; see package
// apiserver/crd.
package apiextensions

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GroupName is the group of the types.
const GroupName = "apiextensions.k8s.io"

// Finalizer keeps a definition until its objects are deleted.
const Finalizer = "customresourcecleanup.apiextensions.k8s.io"

// ApprovedAnnotation is the annotation by which groups of the Kubernetes community are approved.
const ApprovedAnnotation = "api-approved.kubernetes.io"

// The types of conditions.
const (
	Established         = "Established"
	NamesAccepted       = "NamesAccepted"
	NonStructuralSchema = "NonStructuralSchema"
	Terminating         = "Terminating"
	PolicyConformant    = "KubernetesAPIApprovalPolicyConformant"
)

// The scopes of a resource, and the strategies of conversion.
const (
	ClusterScoped    = "Cluster"
	NamespaceScoped  = "Namespaced"
	NoneConverter    = "None"
	WebhookConverter = "Webhook"
)

// A CustomResourceDefinition describes a resource. Its name is "plural.group".
type CustomResourceDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   CustomResourceDefinitionSpec   `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status CustomResourceDefinitionStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// CustomResourceDefinitionSpec holds the wishes of a definition's author.
type CustomResourceDefinitionSpec struct {
	Group                 string                            `json:"group" protobuf:"bytes,1,opt,name=group"`
	Names                 CustomResourceDefinitionNames     `json:"names" protobuf:"bytes,3,opt,name=names"`
	Scope                 string                            `json:"scope" protobuf:"bytes,4,opt,name=scope,casttype=ResourceScope"`
	Versions              []CustomResourceDefinitionVersion `json:"versions" protobuf:"bytes,7,rep,name=versions"`
	Conversion            *CustomResourceConversion         `json:"conversion,omitempty" protobuf:"bytes,9,opt,name=conversion"`
	PreserveUnknownFields bool                              `json:"preserveUnknownFields,omitempty" protobuf:"varint,10,opt,name=preserveUnknownFields"`
}

// CustomResourceConversion says how objects are converted between versions.
type CustomResourceConversion struct {
	Strategy string             `json:"strategy" protobuf:"bytes,1,name=strategy"`
	Webhook  *WebhookConversion `json:"webhook,omitempty" protobuf:"bytes,2,opt,name=webhook"`
}

// WebhookConversion leads to a webhook.
type WebhookConversion struct {
	ClientConfig             *WebhookClientConfig `json:"clientConfig,omitempty" protobuf:"bytes,2,name=clientConfig"`
	ConversionReviewVersions []string             `json:"conversionReviewVersions" protobuf:"bytes,3,rep,name=conversionReviewVersions"`
}

// WebhookClientConfig says where a webhook is.
type WebhookClientConfig struct {
	URL      *string           `json:"url,omitempty" protobuf:"bytes,3,opt,name=url"`
	Service  *ServiceReference `json:"service,omitempty" protobuf:"bytes,1,opt,name=service"`
	CABundle []byte            `json:"caBundle,omitempty" protobuf:"bytes,2,opt,name=caBundle"`
}

// ServiceReference names a service.
type ServiceReference struct {
	Namespace string  `json:"namespace" protobuf:"bytes,1,opt,name=namespace"`
	Name      string  `json:"name" protobuf:"bytes,2,opt,name=name"`
	Path      *string `json:"path,omitempty" protobuf:"bytes,3,opt,name=path"`
	Port      *int32  `json:"port,omitempty" protobuf:"varint,4,opt,name=port"`
}

// CustomResourceDefinitionVersion is one version of the resource.
type CustomResourceDefinitionVersion struct {
	Name                     string                           `json:"name" protobuf:"bytes,1,opt,name=name"`
	Served                   bool                             `json:"served" protobuf:"varint,2,opt,name=served"`
	Storage                  bool                             `json:"storage" protobuf:"varint,3,opt,name=storage"`
	Deprecated               bool                             `json:"deprecated,omitempty" protobuf:"varint,7,opt,name=deprecated"`
	DeprecationWarning       *string                          `json:"deprecationWarning,omitempty" protobuf:"bytes,8,opt,name=deprecationWarning"`
	Schema                   *CustomResourceValidation        `json:"schema,omitempty" protobuf:"bytes,4,opt,name=schema"`
	Subresources             *CustomResourceSubresources      `json:"subresources,omitempty" protobuf:"bytes,5,opt,name=subresources"`
	AdditionalPrinterColumns []CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty" protobuf:"bytes,6,rep,name=additionalPrinterColumns"`
	SelectableFields         []SelectableField                `json:"selectableFields,omitempty" protobuf:"bytes,9,rep,name=selectableFields"`
}

// SelectableField is a field by which lists may be restricted.
type SelectableField struct {
	JSONPath string `json:"jsonPath" protobuf:"bytes,1,opt,name=jsonPath"`
}

// CustomResourceColumnDefinition is a column of the table that kubectl get prints.
type CustomResourceColumnDefinition struct {
	Name        string `json:"name" protobuf:"bytes,1,opt,name=name"`
	Type        string `json:"type" protobuf:"bytes,2,opt,name=type"`
	Format      string `json:"format,omitempty" protobuf:"bytes,3,opt,name=format"`
	Description string `json:"description,omitempty" protobuf:"bytes,4,opt,name=description"`
	Priority    int32  `json:"priority,omitempty" protobuf:"bytes,5,opt,name=priority"`
	JSONPath    string `json:"jsonPath" protobuf:"bytes,6,opt,name=jsonPath"`
}

// CustomResourceDefinitionNames are the names of a resource.
type CustomResourceDefinitionNames struct {
	Plural     string   `json:"plural" protobuf:"bytes,1,opt,name=plural"`
	Singular   string   `json:"singular,omitempty" protobuf:"bytes,2,opt,name=singular"`
	ShortNames []string `json:"shortNames,omitempty" protobuf:"bytes,3,opt,name=shortNames"`
	Kind       string   `json:"kind" protobuf:"bytes,4,opt,name=kind"`
	ListKind   string   `json:"listKind,omitempty" protobuf:"bytes,5,opt,name=listKind"`
	Categories []string `json:"categories,omitempty" protobuf:"bytes,6,rep,name=categories"`
}

// CustomResourceDefinitionCondition is one thing that is known of a definition.
type CustomResourceDefinitionCondition struct {
	Type               string                 `json:"type" protobuf:"bytes,1,opt,name=type,casttype=CustomResourceDefinitionConditionType"`
	Status             metav1.ConditionStatus `json:"status" protobuf:"bytes,2,opt,name=status,casttype=ConditionStatus"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty" protobuf:"bytes,3,opt,name=lastTransitionTime"`
	Reason             string                 `json:"reason,omitempty" protobuf:"bytes,4,opt,name=reason"`
	Message            string                 `json:"message,omitempty" protobuf:"bytes,5,opt,name=message"`
	ObservedGeneration int64                  `json:"observedGeneration,omitempty" protobuf:"varint,6,opt,name=observedGeneration"`
}

// CustomResourceDefinitionStatus holds what the server observes about a definition.
type CustomResourceDefinitionStatus struct {
	Conditions         []CustomResourceDefinitionCondition `json:"conditions" protobuf:"bytes,1,opt,name=conditions"`
	AcceptedNames      CustomResourceDefinitionNames       `json:"acceptedNames" protobuf:"bytes,2,opt,name=acceptedNames"`
	StoredVersions     []string                            `json:"storedVersions" protobuf:"bytes,3,rep,name=storedVersions"`
	ObservedGeneration int64                               `json:"observedGeneration,omitempty" protobuf:"varint,4,opt,name=observedGeneration"`
}

// CustomResourceDefinitionList is a list of definitions.
type CustomResourceDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []CustomResourceDefinition `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// CustomResourceValidation has the schema of objects.
type CustomResourceValidation struct {
	OpenAPIV3Schema *JSONSchemaProps `json:"openAPIV3Schema,omitempty" protobuf:"bytes,1,opt,name=openAPIV3Schema"`
	// Packed holds the schema in place of OpenAPIV3Schema after Pack. It is shared and must not be changed.
	Packed []byte `json:"-"`
}

// CustomResourceSubresources are the subresources of objects.
type CustomResourceSubresources struct {
	Status *CustomResourceSubresourceStatus `json:"status,omitempty" protobuf:"bytes,1,opt,name=status"`
	Scale  *CustomResourceSubresourceScale  `json:"scale,omitempty" protobuf:"bytes,2,opt,name=scale"`
}

// CustomResourceSubresourceStatus serves status.
type CustomResourceSubresourceStatus struct{}

// CustomResourceSubresourceScale serves scale.
type CustomResourceSubresourceScale struct {
	SpecReplicasPath   string  `json:"specReplicasPath" protobuf:"bytes,1,name=specReplicasPath"`
	StatusReplicasPath string  `json:"statusReplicasPath" protobuf:"bytes,2,opt,name=statusReplicasPath"`
	LabelSelectorPath  *string `json:"labelSelectorPath,omitempty" protobuf:"bytes,3,opt,name=labelSelectorPath"`
}

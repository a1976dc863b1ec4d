// Package apiextensions has the types of apiextensions.k8s.io/v1: a CustomResourceDefinition describes a
// resource that an API server serves.
//
//	var d apiextensions.CustomResourceDefinition
//	err := yaml.Unmarshal(data, &d)
//
// The model: the JSON is that of Kubernetes, whose own types come with an API server. How it fails:
// UnmarshalJSON reports JSON of another form.
//
// What it leaves out: protobuf, defaults, validation, and everything that acts on a definition; see package
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
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CustomResourceDefinitionSpec   `json:"spec"`
	Status CustomResourceDefinitionStatus `json:"status,omitempty"`
}

// CustomResourceDefinitionSpec holds the wishes of a definition's author.
type CustomResourceDefinitionSpec struct {
	Group                 string                            `json:"group"`
	Names                 CustomResourceDefinitionNames     `json:"names"`
	Scope                 string                            `json:"scope"`
	Versions              []CustomResourceDefinitionVersion `json:"versions"`
	Conversion            *CustomResourceConversion         `json:"conversion,omitempty"`
	PreserveUnknownFields bool                              `json:"preserveUnknownFields,omitempty"`
}

// CustomResourceConversion says how objects are converted between versions.
type CustomResourceConversion struct {
	Strategy string             `json:"strategy"`
	Webhook  *WebhookConversion `json:"webhook,omitempty"`
}

// WebhookConversion leads to a webhook.
type WebhookConversion struct {
	ClientConfig             *WebhookClientConfig `json:"clientConfig,omitempty"`
	ConversionReviewVersions []string             `json:"conversionReviewVersions"`
}

// WebhookClientConfig says where a webhook is.
type WebhookClientConfig struct {
	URL      *string           `json:"url,omitempty"`
	Service  *ServiceReference `json:"service,omitempty"`
	CABundle []byte            `json:"caBundle,omitempty"`
}

// ServiceReference names a service.
type ServiceReference struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Path      *string `json:"path,omitempty"`
	Port      *int32  `json:"port,omitempty"`
}

// CustomResourceDefinitionVersion is one version of the resource.
type CustomResourceDefinitionVersion struct {
	Name                     string                           `json:"name"`
	Served                   bool                             `json:"served"`
	Storage                  bool                             `json:"storage"`
	Deprecated               bool                             `json:"deprecated,omitempty"`
	DeprecationWarning       *string                          `json:"deprecationWarning,omitempty"`
	Schema                   *CustomResourceValidation        `json:"schema,omitempty"`
	Subresources             *CustomResourceSubresources      `json:"subresources,omitempty"`
	AdditionalPrinterColumns []CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`
	SelectableFields         []SelectableField                `json:"selectableFields,omitempty"`
}

// SelectableField is a field by which lists may be restricted.
type SelectableField struct {
	JSONPath string `json:"jsonPath"`
}

// CustomResourceColumnDefinition is a column of the table that kubectl get prints.
type CustomResourceColumnDefinition struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`
	Priority    int32  `json:"priority,omitempty"`
	JSONPath    string `json:"jsonPath"`
}

// CustomResourceDefinitionNames are the names of a resource.
type CustomResourceDefinitionNames struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind,omitempty"`
	Categories []string `json:"categories,omitempty"`
}

// CustomResourceDefinitionCondition is one thing that is known of a definition.
type CustomResourceDefinitionCondition struct {
	Type               string                 `json:"type"`
	Status             metav1.ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
	ObservedGeneration int64                  `json:"observedGeneration,omitempty"`
}

// CustomResourceDefinitionStatus holds what the server observes about a definition.
type CustomResourceDefinitionStatus struct {
	Conditions         []CustomResourceDefinitionCondition `json:"conditions"`
	AcceptedNames      CustomResourceDefinitionNames       `json:"acceptedNames"`
	StoredVersions     []string                            `json:"storedVersions"`
	ObservedGeneration int64                               `json:"observedGeneration,omitempty"`
}

// CustomResourceDefinitionList is a list of definitions.
type CustomResourceDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CustomResourceDefinition `json:"items"`
}

// CustomResourceValidation has the schema of objects.
type CustomResourceValidation struct {
	OpenAPIV3Schema *JSONSchemaProps `json:"openAPIV3Schema,omitempty"`
	// Packed holds the schema in place of OpenAPIV3Schema after Pack. It is shared and must not be changed.
	Packed []byte `json:"-"`
}

// CustomResourceSubresources are the subresources of objects.
type CustomResourceSubresources struct {
	Status *CustomResourceSubresourceStatus `json:"status,omitempty"`
	Scale  *CustomResourceSubresourceScale  `json:"scale,omitempty"`
}

// CustomResourceSubresourceStatus serves status.
type CustomResourceSubresourceStatus struct{}

// CustomResourceSubresourceScale serves scale.
type CustomResourceSubresourceScale struct {
	SpecReplicasPath   string  `json:"specReplicasPath"`
	StatusReplicasPath string  `json:"statusReplicasPath"`
	LabelSelectorPath  *string `json:"labelSelectorPath,omitempty"`
}

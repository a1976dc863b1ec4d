package structured

// configuration is an AuthenticationConfiguration
// (https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/).
type configuration struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	JWT        []jwt             `json:"jwt"`
	Anonymous  *anonymousSetting `json:"anonymous"`
}

type anonymousSetting struct {
	Enabled    bool                 `json:"enabled"`
	Conditions []anonymousCondition `json:"conditions"`
}

type anonymousCondition struct {
	Path string `json:"path"`
}

type jwt struct {
	Issuer               issuer        `json:"issuer"`
	ClaimValidationRules []claimRule   `json:"claimValidationRules"`
	ClaimMappings        claimMappings `json:"claimMappings"`
	UserValidationRules  []userRule    `json:"userValidationRules"`
}

type issuer struct {
	URL                  string   `json:"url"`
	DiscoveryURL         string   `json:"discoveryURL"`
	CertificateAuthority string   `json:"certificateAuthority"`
	Audiences            []string `json:"audiences"`
	AudienceMatchPolicy  string   `json:"audienceMatchPolicy"`
	EgressSelectorType   string   `json:"egressSelectorType"`
}

type claimRule struct {
	Claim         string `json:"claim"`
	RequiredValue string `json:"requiredValue"`
	Expression    string `json:"expression"`
	Message       string `json:"message"`
}

type claimMappings struct {
	Username prefixedClaim  `json:"username"`
	Groups   prefixedClaim  `json:"groups"`
	UID      claim          `json:"uid"`
	Extra    []extraMapping `json:"extra"`
}

type prefixedClaim struct {
	Claim      string  `json:"claim"`
	Prefix     *string `json:"prefix"`
	Expression string  `json:"expression"`
}

type claim struct {
	Claim      string `json:"claim"`
	Expression string `json:"expression"`
}

type extraMapping struct {
	Key             string `json:"key"`
	ValueExpression string `json:"valueExpression"`
}

type userRule struct {
	Expression string `json:"expression"`
	Message    string `json:"message"`
}

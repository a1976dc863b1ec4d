package kubeletconfig

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The types of fields on which nothing acts. They exist so that unknown fields in them are refused.

type authentication struct {
	X509 struct {
		ClientCAFile string `json:"clientCAFile,omitempty"`
	} `json:"x509,omitzero"`
	Webhook struct {
		Enabled  *bool           `json:"enabled,omitempty"`
		CacheTTL metav1.Duration `json:"cacheTTL,omitzero"`
	} `json:"webhook,omitzero"`
	Anonymous struct {
		Enabled *bool `json:"enabled,omitempty"`
	} `json:"anonymous,omitzero"`
}

type authorization struct {
	Mode    string `json:"mode,omitempty"`
	Webhook struct {
		CacheAuthorizedTTL   metav1.Duration `json:"cacheAuthorizedTTL,omitzero"`
		CacheUnauthorizedTTL metav1.Duration `json:"cacheUnauthorizedTTL,omitzero"`
	} `json:"webhook,omitzero"`
}

type memoryReservation struct {
	NUMANode int32             `json:"numaNode"`
	Limits   map[string]string `json:"limits"`
}

type priorityGrace struct {
	Priority                   int32 `json:"priority"`
	ShutdownGracePeriodSeconds int64 `json:"shutdownGracePeriodSeconds"`
}

type memorySwap struct {
	SwapBehavior string `json:"swapBehavior,omitempty"`
}

type crashLoopBackOff struct {
	MaxContainerRestartPeriod *metav1.Duration `json:"maxContainerRestartPeriod,omitempty"`
}

type userNamespaces struct {
	IDsPerPod *int64 `json:"idsPerPod,omitempty"`
}

type tracing struct {
	Endpoint               *string `json:"endpoint,omitempty"`
	SamplingRatePerMillion *int32  `json:"samplingRatePerMillion,omitempty"`
}

type logOutput struct {
	SplitStream    bool `json:"splitStream,omitempty"`
	InfoBufferSize any  `json:"infoBufferSize,omitempty"`
}

type logging struct {
	Format string `json:"format,omitempty"`
	// FlushFrequency is a duration or a number of nanoseconds.
	FlushFrequency any    `json:"flushFrequency,omitempty"`
	Verbosity      uint32 `json:"verbosity,omitempty"`
	VModule        []struct {
		FilePattern string `json:"filePattern"`
		Verbosity   uint32 `json:"verbosity"`
	} `json:"vmodule,omitempty"`
	Options struct {
		Text logOutput `json:"text,omitzero"`
		JSON logOutput `json:"json,omitzero"`
	} `json:"options,omitzero"`
}

package kubelets

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Scenario is one pod.
type Scenario struct {
	// Name is the name of the pod.
	Name string
	// Spec is the pod's spec in YAML. The network is the host's, and the grace period is one second,
	// unless the spec has another.
	Spec string
	// Until reports whether the pod is in the state to compare.
	Until func(*corev1.Pod) bool
}

// running reports whether all containers run and are ready.
func running(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ended reports whether the pod has ended and its sandbox is stopped.
func ended(pod *corev1.Pod) bool {
	return (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed) &&
		!slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
		})
}

// waiting returns a condition: a container waits for a reason. None waits for CrashLoopBackOff: the
// stock kubelet may show a container that crashes as terminated for minutes.
func waiting(reason string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if w := c.State.Waiting; w != nil && w.Reason == reason {
				return true
			}
		}
		return false
	}
}

// again reports whether the first container runs for at least the second time.
func again(pod *corev1.Pod) bool {
	all := pod.Status.ContainerStatuses
	return len(all) > 0 && all[0].RestartCount == 1 && all[0].State.Running != nil
}

// unready returns a condition: the named container runs and is not ready.
func unready(name string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == name && c.State.Running != nil && !c.Ready
		})
	}
}

// say returns a container that runs a script of a shell once and leaves what it prints as its
// termination message.
func say(script string) string {
	return fmt.Sprintf(`{name: c, image: busybox, command: [sh, -c, %q], terminationMessagePath: /dev/termination-log`, "{ "+script+"; } > /dev/termination-log 2>&1")
}

// Scenarios returns all scenarios. They need the config map "settings" and the secret "key".
func Scenarios() []Scenario {
	return slices.Concat(lives(), failures(), probes(), insides())
}

// lives are pods that run or end as they should.
func lives() []Scenario {
	return []Scenario{
		{"runs", `
containers:
- {name: a, image: busybox, command: [sleep, "1000"], resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 100m, memory: 32Mi}}}
- {name: b, image: busybox, command: [sleep, "1000"]}`, running},
		{"guaranteed", `
containers:
- {name: a, image: busybox, command: [sleep, "1000"], resources: {limits: {cpu: 100m, memory: 32Mi}}}`, running},
		{"scheduled", `
containers:
- {name: a, image: busybox, command: [sleep, "1000"]}`, running},
		{"succeeds", `
restartPolicy: Never
containers:
- {name: c, image: busybox, command: [sh, -c, "echo done > /dev/termination-log"]}`, ended},
		{"restarted", `
restartPolicy: Always
containers:
- {name: c, image: busybox, command: [sh, -c, "test -e /data/twice && sleep 1000; touch /data/twice; exit 3"], volumeMounts: [{name: data, mountPath: /data}]}
volumes: [{name: data, emptyDir: {}}]`, again},
		{"restarted-all", `
restartPolicy: Never
initContainers:
- {name: first, image: busybox, command: [sh, -c, "echo >> /data/rounds"], volumeMounts: [{name: data, mountPath: /data}]}
containers:
- name: c
  image: busybox
  command: [sh, -c, "test $(wc -l < /data/rounds) -gt 1 && sleep 1000; sleep 4; exit 42"]
  restartPolicy: Never
  restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
  volumeMounts: [{name: data, mountPath: /data}]
- {name: other, image: busybox, command: [sleep, "1000"]}
volumes: [{name: data, emptyDir: {}}]`, func(pod *corev1.Pod) bool { return again(pod) && running(pod) }},
		{"initialized", `
initContainers:
- {name: first, image: busybox, command: [sh, -c, "echo 1 >> /data/order"], volumeMounts: [{name: data, mountPath: /data}]}
- {name: second, image: busybox, command: [sh, -c, "echo 2 >> /data/order"], volumeMounts: [{name: data, mountPath: /data}]}
containers:
- {name: c, image: busybox, command: [sleep, "1000"]}
volumes: [{name: data, emptyDir: {}}]`, running},
		{"sidecar", `
restartPolicy: Never
initContainers:
- {name: proxy, image: busybox, restartPolicy: Always, command: [sh, -c, "trap 'exit 0' TERM; sleep 1000 & wait"]}
containers:
- {name: c, image: busybox, command: [sh, -c, "exit 0"]}`, ended},
		{"gated", `
readinessGates: [{conditionType: example.com/ready}]
containers:
- {name: a, image: busybox, command: [sleep, "1000"]}`, func(pod *corev1.Pod) bool {
			return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].Ready
		}},
	}
}

// failures are pods that cannot run.
func failures() []Scenario {
	return []Scenario{
		{"fails", `
restartPolicy: Never
containers:
- {name: c, image: busybox, command: [sh, -c, "echo it went wrong; exit 7"], terminationMessagePolicy: FallbackToLogsOnError}`, ended},
		{"init-fails", `
restartPolicy: Never
initContainers:
- {name: first, image: busybox, command: [sh, -c, "exit 4"]}
containers:
- {name: c, image: busybox, command: [sleep, "1000"]}`, ended},
		{"no-image", `
containers:
- {name: c, image: "busybox:none"}`, waiting("ImagePullBackOff")},
		{"never-pulled", `
containers:
- {name: c, image: "busybox:none", imagePullPolicy: Never}`, waiting("ErrImageNeverPull")},
		{"bad-image", `
containers:
- {name: c, image: "Busy Box"}`, waiting("InvalidImageName")},
		{"no-command", `
restartPolicy: Never
containers:
- {name: c, image: busybox, command: [/none]}`, ended},
		{"no-settings", `
containers:
- {name: c, image: busybox, command: [sleep, "1000"], env: [{name: A, valueFrom: {configMapKeyRef: {name: none, key: a}}}]}`, waiting("CreateContainerConfigError")},
		{"no-key", `
containers:
- {name: c, image: busybox, command: [sleep, "1000"], env: [{name: A, valueFrom: {secretKeyRef: {name: key, key: none}}}]}`, waiting("CreateContainerConfigError")},
		{"root-refused", `
securityContext: {runAsNonRoot: true}
containers:
- {name: c, image: busybox, command: [sleep, "1000"]}`, waiting("CreateContainerConfigError")},
		{"late", `
activeDeadlineSeconds: 4
containers:
- {name: c, image: busybox, command: [sleep, "1000"]}`, ended},
		{"killed", `
restartPolicy: Never
containers:
- {name: c, image: busybox, command: [sh, -c, "tail /dev/zero"], resources: {limits: {memory: 24Mi}}}`, ended},
		{"never-fits", `
nodeSelector: {example.com/none: here}
nodeName: ` + nodeName + `
containers:
- {name: c, image: busybox}`, ended},
		{"no-room", `
nodeName: ` + nodeName + `
containers:
- {name: c, image: busybox, resources: {requests: {cpu: 1k}}}`, ended},
		{"sysctl", `
nodeName: ` + nodeName + `
hostNetwork: false
securityContext: {sysctls: [{name: kernel.msgmax, value: "65536"}]}
containers:
- {name: c, image: busybox}`, ended},
	}
}

// probes are pods with probes and hooks.
func probes() []Scenario {
	return []Scenario{
		{"unhealthy", `
containers:
- name: c
  image: busybox
  command: [sh, -c, "trap 'exit 5' TERM; touch /data/once; sleep 1000 & wait"]
  livenessProbe: {exec: {command: [sh, -c, "echo not well; exit 1"]}, periodSeconds: 1, failureThreshold: 2, initialDelaySeconds: 1}
  volumeMounts: [{name: data, mountPath: /data}]
volumes: [{name: data, emptyDir: {}}]`, again},
		{"unready", `
containers:
- {name: c, image: busybox, command: [sleep, "1000"], readinessProbe: {exec: {command: ["false"]}, periodSeconds: 1}}`, unready("c")},
		{"starting", `
containers:
- {name: c, image: busybox, command: [sleep, "1000"], startupProbe: {exec: {command: ["false"]}, periodSeconds: 1, failureThreshold: 1000}}`, unready("c")},
		{"started", `
containers:
- {name: c, image: busybox, command: [sleep, "1000"], startupProbe: {exec: {command: ["true"]}, periodSeconds: 1}, readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}}`, running},
		{"hooked", `
containers:
- name: c
  image: busybox
  command: [sleep, "1000"]
  lifecycle: {postStart: {exec: {command: [touch, /tmp/started]}}, preStop: {exec: {command: [touch, /tmp/stopping]}}}`, running},
		{"hook-fails", `
containers:
- {name: c, image: busybox, command: [sleep, "1000"], lifecycle: {postStart: {exec: {command: [sh, -c, "echo no; exit 9"]}}}}`, func(pod *corev1.Pod) bool {
			all := pod.Status.ContainerStatuses
			return waiting("PostStartHookError")(pod) && len(all) == 1 && all[0].RestartCount > 0
		}},
	}
}

// insides are pods that say what they find inside.
func insides() []Scenario {
	never := func(container, rest string) string {
		return "restartPolicy: Never\ncontainers:\n- " + container + "\n" + rest
	}
	return []Scenario{
		{"environment", never(say("env | grep -v -e HOSTNAME -e SERVICE -e _PORT -e SHLVL | sort")+`,
   env: [{name: A, value: a}, {name: B, value: "$(A)b $(NONE) $$(A)"}, {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}},
   {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}},
   {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: MEMORY, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}},
   {name: S, valueFrom: {secretKeyRef: {name: key, key: token}}}, {name: OPTIONAL, valueFrom: {configMapKeyRef: {name: none, key: a, optional: true}}}],
   envFrom: [{prefix: P_, configMapRef: {name: settings}}],
   resources: {requests: {memory: 20Mi}, limits: {cpu: 150m, memory: 40Mi}}}`, ""), ended},
		{"files", never(say("cd /v; ls -lnR . | sed 's/[A-Z][a-z][a-z] .*[0-9] \\\\([^ ]*\\\\)$/\\\\1/; s/ [0-9]* 0 / 0 /' | grep -v -e total -e '\\\\.\\\\.[0-9]'; for f in */*; do echo $f; cat $f; echo; done")+`,
   volumeMounts: [{name: settings, mountPath: /v/settings}, {name: key, mountPath: /v/key}, {name: pod, mountPath: /v/pod}, {name: all, mountPath: /v/all}]}`,
			`volumes:
- {name: settings, configMap: {name: settings, defaultMode: 0640, items: [{key: a, path: sub-a}, {key: b, path: b, mode: 0400}]}}
- {name: key, secret: {secretName: key}}
- {name: pod, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: cpu, resourceFieldRef: {containerName: c, resource: limits.cpu}}]}}
- {name: all, projected: {sources: [{configMap: {name: settings}}, {secret: {name: key}}, {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}`), ended},
		{"parts", never(say("cat /one /two/b; ls /three; mount | grep -e ' /one ' -e ' /scratch ' | sed 's/^[^ ]* //; s/size=.*//; s/(.*//'")+`,
   env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}],
   volumeMounts: [{name: settings, mountPath: /one, subPath: a}, {name: settings, mountPath: /two}, {name: data, mountPath: /three, subPathExpr: "$(NAME)/x"}, {name: scratch, mountPath: /scratch}]}`,
			`volumes: [{name: settings, configMap: {name: settings}}, {name: data, emptyDir: {}}, {name: scratch, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]`), ended},
		{"user", "securityContext: {runAsUser: 1000, runAsGroup: 2000, fsGroup: 3000, supplementalGroups: [4000]}\n" +
			never(say("id; ls -lnd /data | cut -c1-30; grep -e Cap -e NoNew -e Seccomp: /proc/self/status; touch /file")+`,
   securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}},
   volumeMounts: [{name: data, mountPath: /data}]}`, `volumes: [{name: data, emptyDir: {}}]`), ended},
		{"default-user", never(say("id; grep -e Cap -e NoNew -e Seccomp: /proc/self/status; cat /proc/self/oom_score_adj; ls /sys/firmware /proc/acpi")+"}", ""), ended},
		{"names", "hostAliases: [{ip: 192.0.2.9, hostnames: [a.example.com, b.example.com]}]\ndnsPolicy: None\n" +
			"dnsConfig: {nameservers: [192.0.2.53], searches: [example.com], options: [{name: ndots, value: \"3\"}, {name: edns0}]}\n" +
			never(say("cat /etc/resolv.conf; grep -v -e \"$(hostname)\" /etc/hosts")+"}", ""), ended},
	}
}

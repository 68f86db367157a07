// Package server is the kubelet core's read-only HTTP endpoint, for people and for scrapers on the same machine:
//
//	/pods           all pods with their statuses, a v1.PodList
//	/events         what happened lately, a v1.EventList, the newest last
//	/healthz        ok, or 500 and the reasons
//	/stats/summary  figures of pods and containers, in the form of the kubelet's summary API
//	/metrics        the kubelet core's own figures, in Prometheus' text format
//	/configz        where things are, for the commands that read logs and exec
//
// It answers on loopback addresses only: nobody is asked who he is.
package server

package main

import "strings"

// awaited describes a command that runs until somebody interrupts it.
type awaited struct {
	text       string // text that the command prints when it is ready
	background bool   // whether the command runs on until the document ends
}

// staying holds the commands that run until somebody interrupts them.
var staying = map[string]awaited{
	"README.md: go run ./cmd/ttfabric up": {text: "Ctrl-C stops it"},

	"node/fabric/dashboard/README.md: ttfabric dashboard": {text: "Ctrl-C ends the dashboard"},

	"ttlink/transport/README.md: ttfabric up":                                             {text: "Ctrl-C stops it"},
	"ttlink/transport/README.md: ttfabric up --auth psk":                                  {text: "Ctrl-C stops it"},
	"ttlink/transport/README.md: ttfabric up --transport quic":                            {text: "Ctrl-C stops it"},
	"ttlink/transport/README.md: ttfabric up --auth psk --psk-file one.key":               {text: "Ctrl-C stops it"},
	"ttlink/transport/README.md: ttfabric up t3000 --name lab --transport quic --pki lab": {text: "Ctrl-C stops it"},
	"ttlink/transport/README.md: ttfabric up sealed.yaml":                                 {text: "Ctrl-C stops it"},
	"ttlink/transport/README.md: " + pskNode:                                              {text: "msg=running"},
	"ttlink/transport/README.md: " + quicNode:                                             {text: "msg=running"},
	"docker/machines.md: " + chipAt("M0D0", "10.0.1.2"):                                   {text: "msg=running", background: true},
	"docker/machines.md: " + chipAt("M0D1", "10.0.2.2"):                                   {text: "msg=running", background: true},
}

const (
	pskNode  = "ttfabric node --chip M0D0 --topology n300 --seeds host1 --token-file token --auth psk --psk-file key"
	quicNode = "ttfabric node --chip M0D0 --topology n300 --name lab --seeds host1 --token-file token --transport quic --pki pki"
)

const onBridge = "tcpdump -i br-$(docker network ls -q --filter label=ttfabric.fabric=default) -c 100 -w "

func chipAt(chip, address string) string {
	return "ttfabric node --chip " + chip + " --topology n300 --name lab --listen " + address + " --trust-network 10.0.0.0/16 --seeds 10.0.1.2,10.0.2.2 --api " + address + ":8474"
}

// replaced holds the commands that run in another form, such as with fewer rounds.
var replaced = map[string]string{
	"ttlink/transport/README.md: " + pskNode:  strings.Replace(pskNode, "host1", "127.0.0.1", 1), // no host of this network has the name host1
	"ttlink/transport/README.md: " + quicNode: strings.Replace(quicNode, "host1", "127.0.0.1", 1),

	"wire/capture/wireshark/README.md: tcpdump -i lo -c 100 -w run.pcap udp": "tcpdump -Z root -i lo -c 100 -w run.pcap udp", // without -Z, tcpdump changes to a user of its own, who must not write here

	"docker/README.md: ttfabric down; unset TTFABRIC_NAME":                                        "ttfabric down; export TTFABRIC_NAME=" + containersOf,
	"docker/README.md: ttfabric up cluster_desc.yaml --runtime docker --mtu 9000 --slots fast -d": "ttfabric up router/topo/testdata/t3k_cluster_desc.yaml --runtime docker --mtu 9000 --slots fast -d",
	"docker/README.md: ttfabric capture M0D1 --filter 'retransmission or nack'":                   "timeout -s INT 5 ttfabric capture M0D1 --filter 'retransmission or nack' || [ $? = 124 ]",
	"docker/README.md: " + onBridge + "bridge.pcap udp":                                           strings.Replace(onBridge, "tcpdump", "tcpdump -Z root", 1) + "bridge.pcap udp",
	"docker/README.md: " + onBridge + "run.pcap udp":                                              strings.Replace(onBridge, "tcpdump", "tcpdump -Z root", 1) + "run.pcap udp",

	"docker/machines.md: ttfabric doctor galaxy --port-base 17000 --runtime docker": "ttfabric doctor galaxy --port-base 17000 --runtime docker || [ $? = 1 ]", // a check may fail on this machine

	"scripts/bench/README.md: scripts/bench/run -only goodput":                                                         "scripts/bench/run -only goodput -sizes 64 -kinds ttlink-fast -rounds 1 -seconds 0.1 -o $HOME/goodput.json",
	"scripts/bench/README.md: scripts/bench/run -only goodput -sizes 64,4096 -kinds ttlink-fast,udp-gso":               "scripts/bench/run -only goodput -sizes 64,4096 -kinds ttlink-fast,udp-gso -rounds 1 -seconds 0.1 -o $HOME/few.json",
	"scripts/bench/README.md: scripts/bench/run -only session -profile /tmp":                                           "scripts/bench/run -only session -profile $HOME -rounds 1 -seconds 0.1 -o $HOME/session.json",
	"scripts/bench/README.md: scripts/bench/run -plot results/FILE.json":                                               "scripts/bench/run -plot $HOME/goodput.json",
	"scripts/bench/README.md: scripts/bench/loss":                                                                      "scripts/bench/loss -rounds 1 -seconds 0.1 -o $HOME/loss.json",
	"scripts/bench/README.md: scripts/bench/wan -mtu 9000 -kinds ttlink-fast,tcp,kcp":                                  "scripts/bench/wan -mtu 9000 -kinds ttlink-fast,tcp -rounds 1 -seconds 0.1 -o $HOME/wan.json",
	"scripts/bench/README.md: scripts/bench/up -rounds 5 -machines mesh:8x8,mesh:8x16 -programs BEFORE,AFTER -ping no": "scripts/bench/up -rounds 1 -machines mesh:2x2 -ping no",
	"scripts/bench/README.md: scripts/bench/cuts -cuts 20 -seed 7 -machines t3000":                                     "scripts/bench/cuts -cuts 2 -seed 7 -machines t3000 -o $HOME/cuts.json",
	"scripts/bench/README.md: ttfabric bench link --plot link.svg":                                                     "ttfabric bench link --plot link.svg --channels 1,2 --sizes 64,4096 --time 20ms",
	"scripts/bench/README.md: ttfabric bench ring --plot ring.svg":                                                     "ttfabric bench ring --plot ring.svg --rounds 10",
	"scripts/bench/README.md: ttfabric bench rtt  --plot rtt.svg":                                                      "ttfabric bench rtt --plot rtt.svg --rounds 50",
}

// elsewhere holds the commands that runDocument leaves out. Each value gives the reason,
// and the test or script that covers the command.
var elsewhere = map[string]string{
	"README.md: scripts/check": "the check runs this test",

	"node/rank/README.md: ttfabric run --up t3000 /usr/bin/python3 scripts/python/train_torch.py --cut M0D5-M0D6": "needs torch; scripts/prove-torch runs the program",

	"ttlink/transport/README.md: ttfabric events --type port": "needs a machine with another key; TestPSKRefusesWithReason in ttlink/transport compares the text of the line",

	"node/sim/README.md: go test ./node/sim -run TestLoadCurves -sim.curves curves -timeout 60m": "takes ten minutes; TestCommittedCurves of every test run compares the first point of each curve",

	"node/sim/reliable/README.md: ttfabric model mesh:8x8 --router reliable --curves --charts node/sim/reliable/curves": "takes minutes; TestCommittedCurves of package curves compares the first point of some curves",

	"wire/capture/wireshark/README.md: wireshark -C ttfabric sample.pcapng":               opensWindow,
	"wire/capture/wireshark/README.md: wireshark -C ttfabric -k -i ttfabric-default-M0D0": opensWindow,
	"docker/README.md: wireshark -C ttfabric -k -i ttfabric-default-M0D0":                 opensWindow,
	"docker/README.md: wireshark -o tls.keylog_file:all run.pcap":                         "opens a window; scripts/prove-docker decrypts the bridge's QUIC with the same files in tshark",

	"docker/README.md: docker build -f docker/Dockerfile -t ttfabric --build-arg GOLANG=registry.lan:5000/golang:1.26 --build-arg GOPROXY=https://goproxy.lan .": "needs a registry; scripts/prove-image builds from one",
	"docker/README.md: ttfabric up galaxy --runtime docker -d": "32 containers; scripts/prove-docker brings up as many",

	"docker/machines.md: scripts/image": bySwarm,
	"docker/machines.md: docker stack deploy -c docker/stack-t3000.yml --resolve-image never lab":                 bySwarm,
	"docker/machines.md: docker exec $(docker ps -qf name=lab_console) /ttfabric --name t3000 inspect":            bySwarm,
	"docker/machines.md: docker exec $(docker ps -qf name=lab_console) /ttfabric --name t3000 traffic all-to-all": bySwarm,
	"docker/machines.md: docker service scale lab_m0d3=0; docker service scale lab_m0d3=1":                        bySwarm,
	"docker/machines.md: docker stack rm lab":                                                                     bySwarm,

	"scripts/bench/README.md: scripts/bench/all":                        "takes an hour; the test of this document runs its parts with fewer rounds",
	"scripts/bench/README.md: scripts/bench/run":                        benchParts,
	"scripts/bench/README.md: scripts/bench/run -rounds 3 -seconds 0.6": benchParts,
	"scripts/bench/README.md: scripts/bench/run -only growth":           "takes ten minutes on a machine without other work",
	"scripts/bench/README.md: scripts/bench/wan":                        "takes ten minutes; the next command is the same with fewer kinds, and runs",
	"scripts/bench/README.md: scripts/bench/container":                  "fails where the machine has other work; scripts/bench/all runs the command",
	"scripts/bench/README.md: scripts/bench/up":                         "takes ten minutes; the next command is the same with fewer chips, and runs",
	"scripts/bench/README.md: scripts/bench/cuts":                       "takes ten minutes; the next command is the same with fewer cuts, and runs",
	"scripts/bench/README.md: scripts/bench/guide":                      "the bench commands further down are its parts, and run",
}

const (
	bySwarm     = "needs an engine in a Swarm; scripts/prove-swarm takes the same file through the same steps on an engine of its own"
	opensWindow = "opens a window; scripts/prove-wireshark reads the same file, and the plugin's capture, with tshark"
	benchParts  = "takes half an hour; the commands below are its parts, and run with fewer rounds"
)

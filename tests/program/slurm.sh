# A Slurm of one's own: a controller and so many nodes, all on this machine. Started in namespaces of network, host names,
# mounts and processes, with which all of it ends: unshare -numpf --kill-child --mount-proc. NODES says how many; afterwards
# n1 to nN are idle, and $S is a folder that goes with the script.
S=$(mktemp -d)
chmod 711 "$S"
trap 'rm -rf "$S"' EXIT
ip link set lo up
# Where loopback has the only addresses, getaddrinfo(3) resolves nothing (AI_ADDRCONFIG): one more.
ip link add v0 type veth peer name v1
ip addr add 10.78.0.1/24 dev v0
ip link set v0 up
ip link set v1 up
hostname ctl
{
    echo '127.0.0.1 localhost ctl'
    for i in $(seq "$NODES"); do echo "127.0.1.$i n$i"; done
} >"$S/hosts"
mount --bind "$S/hosts" /etc/hosts
cat >"$S/slurm.conf" <<E
ClusterName=mp
SlurmctldHost=ctl(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$S/state
SlurmdSpoolDir=$S/spool/%n
SlurmctldPidFile=$S/slurmctld.pid
SlurmdPidFile=$S/slurmd-%n.pid
SlurmctldLogFile=$S/slurmctld.log
SlurmdLogFile=$S/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
NodeName=n[1-$NODES] NodeHostname=ctl NodeAddr=127.0.0.1 Port=[7001-$((7000 + NODES))] CPUs=1
PartitionName=all Nodes=n[1-$NODES] Default=YES MaxTime=INFINITE State=UP
E
export SLURM_CONF=$S/slurm.conf
mkdir -p "$S/state"
slurmctld -D -c >/dev/null 2>&1 &
for i in $(seq "$NODES"); do
    mkdir -p "$S/spool/n$i"
    slurmd -D -N "n$i" >/dev/null 2>&1 &
done
for i in $(seq 100); do
    [ "$(timeout 2 sinfo -h -t idle -o %D)" = "$NODES" ] && break
    sleep 0.1
done
[ "$(sinfo -h -t idle -o %D)" = "$NODES" ] || { sinfo >&2; echo "no Slurm came up" >&2; exit 77; }
